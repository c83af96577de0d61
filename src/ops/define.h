// Helpers for the ops' definitions: element access through any stored type, in double.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/bf16.h"
#include "base/tensor.h"

namespace clef::definition {

inline float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU, fraction = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;  // subnormal: exact
  return sign != 0 ? -magnitude : magnitude;
}

inline double at(const Tensor& t, std::int64_t row, std::int64_t col) {
  switch (t.dtype) {
    case DType::f32: return static_cast<double>(t.row<const float>(row)[col]);
    case DType::bf16: return static_cast<double>(bf16_to_f32(t.row<const std::uint16_t>(row)[col]));
    case DType::f16: return static_cast<double>(f16_to_f32(t.row<const std::uint16_t>(row)[col]));
    case DType::i32: return static_cast<double>(t.row<const std::int32_t>(row)[col]);
    default: break;
  }
  CHECK(false, "no element access for {}", name_of(t.dtype));
}

inline std::int64_t int_at(const Tensor& t, std::int64_t row, std::int64_t col) {
  return t.row<const std::int32_t>(row)[col];
}
inline void put(const Tensor& t, std::int64_t row, std::int64_t col, double value) {
  t.row<float>(row)[col] = static_cast<float>(value);
}

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }  // PyTorch's threshold

}  // namespace clef::definition
