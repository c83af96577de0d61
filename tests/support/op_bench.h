// Makes tensors with known contents on a device whose memory the host can reach, for tests of ops.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "base/bf16.h"
#include "ops/device.h"

namespace clef::test {

class TensorMaker {
 public:
  TensorMaker(Device& device, std::uint32_t seed) : device_(device), random_(seed) {}

  Tensor empty(std::int64_t rows, std::int64_t cols, DType dtype = DType::f32) {
    const std::size_t bytes = static_cast<std::size_t>(rows * cols) * size_of(dtype);
    auto buffer = device_.allocate(bytes == 0 ? 1 : bytes);
    buffers_.push_back(std::move(buffer).value());
    std::memset(buffers_.back()->data(), 0xff, bytes);  // NaN: an element nobody wrote is seen
    return {.buffer = buffers_.back().get(), .offset = 0, .rows = rows, .cols = cols, .stride = cols, .dtype = dtype};
  }
  Tensor random(std::int64_t rows, std::int64_t cols, float scale = 1.0F, float offset = 0.0F) {
    const Tensor t = empty(rows, cols);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    for (std::int64_t i = 0; i < rows * cols; ++i) t.row<float>(0)[i] = offset + scale * uniform(random_);
    return t;
  }
  Tensor random_bf16(std::int64_t rows, std::int64_t cols, float scale = 1.0F) {
    const Tensor t = empty(rows, cols, DType::bf16);
    std::uniform_real_distribution<float> uniform(-scale, scale);
    for (std::int64_t i = 0; i < rows * cols; ++i) t.row<std::uint16_t>(0)[i] = f32_to_bf16(uniform(random_));
    return t;
  }
  Tensor ints(const std::vector<std::int32_t>& values, std::int64_t cols = 0) {
    const auto count = static_cast<std::int64_t>(values.size());
    if (cols == 0) cols = count;
    const Tensor t = empty(count / cols, cols, DType::i32);
    std::memcpy(t.row<std::int32_t>(0), values.data(), values.size() * sizeof(std::int32_t));
    return t;
  }

 private:
  Device& device_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

// Three sequences of 1, 63 and 130 new tokens, each behind `known` ones.
struct BehindKnownTokens {
  std::int64_t known;
  std::int64_t fresh() const { return 1 + 63 + 130; }
  std::int64_t tokens() const { return 3 * known + fresh(); }
  Tensor cu_seqlens(TensorMaker& m) const {
    const auto end = [this](std::int64_t sequences, std::int64_t new_tokens) {
      return static_cast<std::int32_t>(sequences * known + new_tokens);
    };
    return m.ints({0, end(1, 1), end(2, 64), end(3, 194)});
  }
};

}  // namespace clef::test
