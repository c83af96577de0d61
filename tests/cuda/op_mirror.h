// An op that was made on the host, run on any device through what Device and Pass offer, and held to its definition.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_device.h"
#include "base/f16.h"
#include "ops/define.h"
#include "ops/op.h"
#include "support/op_bench.h"

namespace clef::test {

// Makes tensors on the host; activations are of the type that the device under test wants.
class OpMaker : public TensorMaker {
 public:
  OpMaker(Device& host, DType activation, std::uint32_t seed) : TensorMaker(host, seed), activation_(activation) {}
  DType activation() const { return activation_; }
  Tensor empty_activation(std::int64_t rows, std::int64_t cols) { return empty(rows, cols, activation_); }
  Tensor random_activation(std::int64_t rows, std::int64_t cols, float scale = 1.0F, float offset = 0.0F) {
    return as_activation(random(rows, cols, scale, offset));
  }
  Tensor as_activation(const Tensor& from) {
    if (activation_ == DType::f32) return from;
    const Tensor to = empty_activation(from.rows, from.cols);
    for (std::int64_t r = 0; r < from.rows; ++r) {
      for (std::int64_t c = 0; c < from.cols; ++c) to.row<std::uint16_t>(r)[c] = f32_to_f16(from.row<float>(r)[c]);
    }
    return to;
  }

 private:
  DType activation_;
};

using MakeOp = std::function<Op(OpMaker&)>;

// What the op writes, as double, from tensors of the host.
inline std::vector<double> written_values(const Op& op) {
  std::vector<double> values;
  const auto append = [&](const Tensor& t) {
    for (std::int64_t r = 0; r < t.rows; ++r) {
      for (std::int64_t c = 0; c < t.cols; ++c) values.push_back(definition::at(t, r, c));
    }
  };
  const auto take = [&](const auto& tensor) {
    if constexpr (!std::is_same_v<std::decay_t<decltype(tensor)>, In>) append(tensor);
  };
  std::visit([&](const auto& o) { std::apply([&](const auto&... t) { (take(t), ...); }, o.tensors()); }, op);
  return values;
}

// The host's buffers on a device: BF16 ones are weights and are adopted, for inputs with a low part too; others are
// copied as they are.
class OpMirror {
 public:
  explicit OpMirror(Device& device) : device_(device) {}

  // `prepares_low`: weights get what inputs with a low part need.
  Result<Op> send(const Op& op, bool prepares_low = true) {
    Op sent = op;
    Status status;
    const auto move = [&](const Tensor& tensor) {
      if (!tensor || !status) return;
      auto there = place(tensor);
      if (!there) {
        status = std::move(there).error();
        return;
      }
      const_cast<Tensor&>(tensor) = *there;  // a member of `sent`, which is ours
    };
    std::visit([&](auto& o) { std::apply([&](const auto&... t) { (move(t), ...); }, o.tensors()); }, sent);
    if (!status) return std::move(status).error();
    if (prepares_low) {
      for (const Tensor& weight : weights_) TRY(device_.adopt_low(weight));
    }
    weights_.clear();
    return sent;
  }

  // What the device holds now, in the host's buffers.
  Status fetch() {
    for (const auto& [host, there] : buffers_) {
      TRY(device_.download({static_cast<std::byte*>(host->data()), host->bytes()}, bytes_of(*there)));
    }
    return {};
  }

 private:
  Result<Tensor> place(const Tensor& tensor) {
    Tensor there = tensor;
    if (tensor.dtype == DType::bf16) {
      const std::size_t bytes = static_cast<std::size_t>(tensor.rows * tensor.cols) * sizeof(std::uint16_t);
      weights_.push_back(TRY(
          device_.adopt({tensor.address(), bytes}, {.rows = tensor.rows, .cols = tensor.cols, .dtype = DType::bf16})));
      return weights_.back();
    }
    std::unique_ptr<Buffer>& buffer = buffers_[tensor.buffer];
    if (buffer == nullptr) {
      buffer = TRY(device_.allocate(tensor.buffer->bytes()));
      TRY(device_.upload(bytes_of(*buffer),
                         {static_cast<const std::byte*>(tensor.buffer->data()), tensor.buffer->bytes()}));
    }
    there.buffer = buffer.get();
    return there;
  }
  static Tensor bytes_of(Buffer& buffer) {
    const auto count = static_cast<std::int64_t>(buffer.bytes());
    return {.buffer = &buffer, .offset = 0, .rows = 1, .cols = count, .stride = count, .dtype = DType::u8};
  }

  Device& device_;
  std::map<Buffer*, std::unique_ptr<Buffer>> buffers_;
  std::vector<Tensor> weights_;  // that were adopted; those of one op stay together
};

struct OpError {
  std::string failure;             // why there are no figures
  double relative = 0, worst = 0;  // of the L2 norm; of one element, over the largest magnitude
};

inline OpError op_error(const MakeOp& make, Device& device, DType activation) {
  const auto host = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
  OpMaker first(*host, activation, 7), second(*host, activation, 7);
  const Op defined = make(first), run = make(second);
  if (!is_valid(defined)) return {.failure = "the op is not valid"};
  define_op(defined);

  OpMirror mirror(device);
  const auto sent = mirror.send(run);
  if (!sent) return {.failure = sent.error().message};
  const auto pass = device.begin();
  pass->run(*sent);
  if (const Status done = pass->finish(); !done) return {.failure = done.error().message};
  if (const Status fetched = mirror.fetch(); !fetched) return {.failure = fetched.error().message};

  const std::vector<double> want = written_values(defined), got = written_values(run);
  OpError error;
  double squares = 0, differences = 0, largest = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i])) return {.failure = "element " + std::to_string(i) + " is not finite"};
    squares += want[i] * want[i];
    differences += (got[i] - want[i]) * (got[i] - want[i]);
    largest = std::max(largest, std::abs(want[i]));
    error.worst = std::max(error.worst, std::abs(got[i] - want[i]));
  }
  if (largest == 0) return {.failure = "the definition wrote zeros"};
  error.relative = std::sqrt(differences / squares);
  error.worst /= largest;
  return error;
}

}  // namespace clef::test
