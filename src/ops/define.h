// Helpers for the ops' definitions: element access through any stored type, in double.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/bf16.h"
#include "base/f16.h"
#include "base/tensor.h"

namespace clef::definition {

inline double at(const Tensor& t, std::int64_t row, std::int64_t col) {
  switch (t.dtype) {
    case DType::f32:
      return static_cast<double>(t.row<const float>(row)[col]);
    case DType::bf16:
      return static_cast<double>(bf16_to_f32(t.row<const std::uint16_t>(row)[col]));
    case DType::f16:
      return static_cast<double>(f16_to_f32(t.row<const std::uint16_t>(row)[col]));
    case DType::i32:
      return static_cast<double>(t.row<const std::int32_t>(row)[col]);
    default:
      break;
  }
  CHECK(false, "no element access for {}", name_of(t.dtype));
}

inline std::int64_t int_at(const Tensor& t, std::int64_t row, std::int64_t col) {
  return t.row<const std::int32_t>(row)[col];
}
inline void put(const Tensor& t, std::int64_t row, std::int64_t col, double value) {
  if (t.dtype == DType::f16) {
    t.row<std::uint16_t>(row)[col] = f32_to_f16(static_cast<float>(value));
  } else {
    t.row<float>(row)[col] = static_cast<float>(value);
  }
}

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }  // PyTorch's threshold

}  // namespace clef::definition
