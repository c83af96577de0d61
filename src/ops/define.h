// Helpers for the ops' definitions: element access through any stored type, in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/bf16.h"
#include "base/e4m3.h"
#include "base/f16.h"
#include "base/tensor.h"
#include "ops/low_part.h"

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

// A row's place in a low part, or -1.
template <typename Role>
std::int64_t place_in(const LowPartOf<Role>& low, const PreciseRows& precise, std::int64_t row) {
  if (!low) return -1;
  return precise ? int_at(precise.places, 0, row) : row;
}

// What the low part adds; none adds nothing.
template <typename Role>
double low_at(const LowPartOf<Role>& low, const PreciseRows& precise, std::int64_t row, std::int64_t col) {
  const std::int64_t place = place_in(low, precise, row);
  if (place < 0) return 0;
  return at(low.scales, 0, place) *
         static_cast<double>(e4m3_to_f32(low.values.template row<const std::uint8_t>(place)[col]));
}

// A row of y and, where there is a low part and the row matters, what y cannot hold of it: scaled so that the largest
// of the row comes to lie in [128, 256).
inline void put_row(const Tensor& y, const LowOut& low, const PreciseRows& precise, std::int64_t row,
                    const std::vector<double>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  for (std::int64_t c = 0; c < count; ++c) put(y, row, c, values[static_cast<std::size_t>(c)]);
  const std::int64_t place = place_in(low, precise, row);
  if (place < 0) return;
  const auto rest = [&](std::int64_t c) {
    const double left = values[static_cast<std::size_t>(c)] - at(y, row, c);
    return std::isfinite(left) ? left : 0.0;
  };
  double most = 0;
  for (std::int64_t c = 0; c < count; ++c) most = std::max(most, std::abs(rest(c)));
  int exponent = 0;
  std::frexp(most, &exponent);
  const double scale = most > 0 ? std::ldexp(1.0, exponent - 8) : 0.0;
  put(low.scales, 0, place, scale);
  for (std::int64_t c = 0; c < count; ++c) {
    low.values.row<std::uint8_t>(place)[c] = most > 0 ? f32_to_e4m3(static_cast<float>(rest(c) / scale)) : 0;
  }
}

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }  // PyTorch's threshold

}  // namespace clef::definition
