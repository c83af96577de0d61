#include "model/arena.h"

#include <algorithm>
#include <bit>

namespace clef {

namespace {
constexpr std::size_t kAlignment = 256;  // what the widest machine wants of a matrix's start

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
}  // namespace

std::size_t Arena::bytes_for(std::int64_t rows, std::int64_t cols, DType dtype) {
  return aligned(static_cast<std::size_t>(rows * cols) * size_of(dtype));
}

Status Arena::reset(std::size_t bytes) {
  used_ = 0;
  if (buffer_ != nullptr && buffer_->bytes() >= bytes) return {};
  buffer_.reset();  // before the new one: both may not fit
  buffer_ = TRY(device_.allocate(bytes));
  return {};
}

Tensor Arena::take(std::int64_t rows, std::int64_t cols, DType dtype) {
  const std::size_t bytes = bytes_for(rows, cols, dtype);
  CHECK(buffer_ != nullptr && used_ + bytes <= buffer_->bytes(), "{} of {} bytes used, {} wanted", used_,
        buffer_ == nullptr ? 0 : buffer_->bytes(), bytes);
  const Tensor tensor{.buffer = buffer_.get(),
                      .offset = static_cast<std::int64_t>(used_ / size_of(dtype)),
                      .rows = rows,
                      .cols = cols,
                      .stride = cols,
                      .dtype = dtype};
  used_ += bytes;
  return tensor;
}

Status DeviceTables::start(std::size_t together) {
  buffers_.clear();
  waiting_.clear();
  if (shared_ != nullptr && shared_->bytes() >= together) return {};
  shared_.reset();  // before the new one: both may not fit
  shared_ = TRY(device_.allocate(std::bit_ceil(together)));
  return {};
}

Result<Tensor> DeviceTables::make(std::int64_t rows, std::int64_t cols, DType dtype) {
  const auto bytes = static_cast<std::size_t>(rows * cols) * size_of(dtype);
  buffers_.push_back(TRY(device_.allocate(std::max<std::size_t>(bytes, 1))));
  return Tensor{
      .buffer = buffers_.back().get(), .offset = 0, .rows = rows, .cols = cols, .stride = cols, .dtype = dtype};
}

Result<Tensor> DeviceTables::put(std::span<const std::byte> bytes, std::int64_t rows, std::int64_t cols, DType dtype) {
  const std::size_t first = aligned(waiting_.size());
  if (shared_ == nullptr || first + bytes.size() > shared_->bytes()) {
    const Tensor tensor = TRY(make(rows, cols, dtype));
    TRY(device_.upload(tensor, bytes));
    return tensor;
  }
  waiting_.resize(first);
  waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
  return Tensor{.buffer = shared_.get(),
                .offset = static_cast<std::int64_t>(first / size_of(dtype)),
                .rows = rows,
                .cols = cols,
                .stride = cols,
                .dtype = dtype};
}

Status DeviceTables::finish() {
  if (waiting_.empty()) return {};
  const auto count = static_cast<std::int64_t>(waiting_.size());
  const Tensor all{.buffer = shared_.get(), .offset = 0, .rows = 1, .cols = count, .stride = count, .dtype = DType::u8};
  return device_.upload(all, waiting_);
}

Result<Tensor> DeviceTables::floats(std::span<const float> values, std::int64_t cols) {
  const auto count = static_cast<std::int64_t>(values.size());
  CHECK(cols > 0 && count % cols == 0);
  return put(std::as_bytes(values), count / cols, cols, DType::f32);
}

Result<Tensor> DeviceTables::ints(std::span<const std::int32_t> values, std::int64_t cols) {
  const auto count = static_cast<std::int64_t>(values.size());
  CHECK(cols > 0 && count % cols == 0);
  return put(std::as_bytes(values), count / cols, cols, DType::i32);
}

Result<Tensor> DeviceTables::levels(std::span<const std::span<const std::uint8_t>> parts, std::int64_t cols) {
  std::int64_t rows = 0;
  for (const auto& part : parts) {
    CHECK(cols > 0 && static_cast<std::int64_t>(part.size()) % cols == 0);
    rows += static_cast<std::int64_t>(part.size()) / cols;
  }
  const Tensor tensor = TRY(make(rows, cols, DType::u8));
  std::int64_t first = 0;
  for (const auto& part : parts) {
    const std::int64_t count = static_cast<std::int64_t>(part.size()) / cols;
    TRY(device_.upload(tensor.row_range(first, count), std::as_bytes(part)));
    first += count;
  }
  return tensor;
}

}  // namespace clef
