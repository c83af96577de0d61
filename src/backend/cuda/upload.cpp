#include "backend/cuda/upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "backend/cuda/reencode.h"
#include "ops/low_part.h"

namespace clef::cuda {

namespace {

constexpr std::size_t kStageBytes = std::size_t{64} << 20;
constexpr std::size_t kSlabBytes = std::size_t{2} << 30;
constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

Status check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  const Errc code = error == cudaErrorMemoryAllocation ? Errc::out_of_memory : Errc::device;
  return Error{code, fmt::format("cuda: {}: {}", what, cudaGetErrorString(error))};
}

}  // namespace

WeightUpload::~WeightUpload() {
  release_staging();
  if (counts_ != nullptr) cudaFree(counts_);
  for (void* slab : slabs_) cudaFree(slab);
}

void WeightUpload::release_staging() {
  cudaStreamSynchronize(stream_);
  for (int i = 0; i < kStages; ++i) {
    if (staging_[i] != nullptr) cudaFreeHost(staging_[i]);
    if (sent_[i] != nullptr) cudaEventDestroy(sent_[i]);
    staging_[i] = nullptr;
    sent_[i] = nullptr;
  }
  if (incoming_ != nullptr) cudaFree(incoming_);
  incoming_ = nullptr;
}

std::size_t WeightUpload::placed_bytes(const Tensor& shape) {
  return aligned(static_cast<std::size_t>(shape.rows * shape.cols) * sizeof(__half));
}
std::size_t WeightUpload::placed_low_bytes(const Tensor& weight) {
  return aligned(static_cast<std::size_t>(weight.rows * low_stride(weight.cols)));
}

void WeightUpload::expect(std::size_t bytes) {
  expected_ = bytes;
  slab_left_ = 0;
}

Result<std::byte*> WeightUpload::place(std::size_t bytes) {
  if (bytes > slab_left_) {
    std::size_t size = std::max(expected_ != 0 ? std::exchange(expected_, 0) : kSlabBytes, bytes);
    void* slab = nullptr;
    cudaError_t error = cudaMalloc(&slab, size);
    if (error == cudaErrorMemoryAllocation && size > bytes) {  // the last of a full device
      (void)cudaGetLastError();
      size = bytes;
      error = cudaMalloc(&slab, size);
    }
    if (error == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      std::size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      return Error{Errc::out_of_memory,
                   fmt::format("cuda: the model does not fit: a weight needs {:.1f} MiB, and {:.1f} of {:.1f} MiB are "
                               "free after {:.1f} MiB of weights",
                               static_cast<double>(bytes) / 0x1p20, static_cast<double>(free) / 0x1p20,
                               static_cast<double>(total) / 0x1p20,
                               static_cast<double>(report_.bytes + report_.low_bytes) / 0x1p20)};
    }
    TRY(check(error, "memory for weights"));
    slabs_.push_back(slab);
    slab_ = static_cast<std::byte*>(slab);
    slab_left_ = size;
  }
  std::byte* place = slab_;
  slab_ += bytes;
  slab_left_ -= bytes;
  return place;
}

// Sends the values in pieces; the next is copied to pinned memory while the last is on its way.
Status WeightUpload::stage(std::span<const std::byte> mapped, const Tensor& shape, std::byte* to, int exponent) {
  const std::size_t element = size_of(shape.dtype);
  for (int i = 0; i < kStages; ++i) {
    if (staging_[i] == nullptr) {
      TRY(check(cudaMallocHost(reinterpret_cast<void**>(&staging_[i]), kStageBytes), "pinned memory"));
      TRY(check(cudaEventCreateWithFlags(&sent_[i], cudaEventDisableTiming), "event"));
    }
  }
  if (element > 2 && incoming_ == nullptr) TRY(check(cudaMalloc(&incoming_, kStageBytes), "memory for weights"));
  int stage = 0;
  for (std::size_t done = 0; done < mapped.size(); stage = (stage + 1) % kStages) {
    const std::size_t bytes = std::min(kStageBytes, mapped.size() - done);
    TRY(check(cudaEventSynchronize(sent_[stage]), "upload"));
    const std::size_t part = std::size_t{4} << 20;
    pool_.for_each(static_cast<std::int64_t>((bytes + part - 1) / part), [&](std::int64_t index, int) {
      const std::size_t first = static_cast<std::size_t>(index) * part;
      std::memcpy(staging_[stage] + first, mapped.data() + done + first, std::min(part, bytes - first));
    });
    const auto count = static_cast<std::int64_t>(bytes / element);
    std::byte* target = to + done / element * sizeof(__half);
    void* landing = element > 2 ? incoming_ : target;
    TRY(check(cudaMemcpyAsync(landing, staging_[stage], bytes, cudaMemcpyHostToDevice, stream_), "upload"));
    TRY(check(cudaEventRecord(sent_[stage], stream_), "upload"));
    if (shape.dtype != DType::f16) {
      TRY(check(reencode(reinterpret_cast<__half*>(target), landing, shape.dtype, count, exponent,
                         static_cast<ReencodeCounts*>(counts_), stream_),
                "reencode"));
    }
    done += bytes;
  }
  return {};
}

Result<ReencodeCounts> WeightUpload::counts() {
  ReencodeCounts counts{};
  TRY(check(cudaMemcpyAsync(&counts, counts_, sizeof counts, cudaMemcpyDeviceToHost, stream_), "reencode"));
  TRY(check(cudaStreamSynchronize(stream_), "upload"));
  return counts;
}

Result<Tensor> WeightUpload::adopt(std::span<const std::byte> mapped, const Tensor& shape) {
  const std::int64_t count = shape.rows * shape.cols;
  CHECK(mapped.size() == static_cast<std::size_t>(count) * size_of(shape.dtype));
  if (counts_ == nullptr) TRY(check(cudaMalloc(&counts_, sizeof(ReencodeCounts)), "memory for weights"));
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(__half);
  std::byte* to = TRY(place(placed_bytes(shape)));
  int exponent = shape.dtype == DType::f16 ? 0 : kWeightExponent;
  ReencodeCounts found{};
  for (;;) {
    TRY(check(cudaMemsetAsync(counts_, 0, sizeof(ReencodeCounts), stream_), "upload"));
    TRY(stage(mapped, shape, to, exponent));
    found = TRY(counts());
    if (found.overflown == 0 || exponent <= -kWeightExponent) break;
    exponent -= kWeightExponent;  // unusually large weights
  }
  if (found.overflown != 0) {
    return Error{Errc::bad_model,
                 fmt::format("cuda: a weight of {} x {} has {} values that are not finite or past {:g}", shape.rows,
                             shape.cols, found.overflown, 65504.0 * 0x1p12)};
  }
  // F32 files hold BF16 values as a rule; others cannot be kept exactly in 16 bits.
  if (shape.dtype == DType::f32 && found.rounded > static_cast<unsigned long long>(count / 1000)) {
    return Error{Errc::unsupported,
                 fmt::format("cuda: {} of {} values of an F32 weight need more than FP16's bits: run this model with "
                             "--device cpu, or convert it from its BF16 original",
                             found.rounded, count)};
  }
  report_.values += static_cast<std::uint64_t>(count);
  report_.rounded += found.rounded;
  report_.bytes += bytes;
  buffers_.push_back(std::make_unique<WeightBuffer>(to, bytes, std::ldexp(1.0F, -exponent)));
  return Tensor{.buffer = buffers_.back().get(),
                .offset = 0,
                .rows = shape.rows,
                .cols = shape.cols,
                .stride = shape.cols,
                .dtype = DType::f16};
}

Status WeightUpload::adopt_low(const Tensor& weight) {
  auto* buffer = static_cast<WeightBuffer*>(weight.buffer);
  CHECK(weight.offset == 0 && weight.stride == weight.cols && weight.dtype == DType::f16);
  if (buffer->low != nullptr) return {};
  auto* to = reinterpret_cast<std::uint8_t*>(TRY(place(placed_low_bytes(weight))));
  TRY(check(reencode_low(to, low_stride(weight.cols), reinterpret_cast<const __half*>(weight.address()), weight.rows,
                         weight.cols, std::ldexp(buffer->scale, kLowWeightExponent), stream_),
            "reencode"));
  buffer->low = to;
  report_.low_bytes += placed_low_bytes(weight);
  return {};
}

}  // namespace clef::cuda
