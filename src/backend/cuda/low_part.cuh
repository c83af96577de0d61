// How the low part of a row is made (ops/low_part.h), by the block that holds the row.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "backend/cuda/lanes.cuh"
#include "ops/low_part.h"

namespace clef::cuda {

struct LowRows {
  std::uint8_t* values = nullptr;  // [precise rows, cols], rows `stride` bytes apart; none where no low part is wanted
  std::int64_t stride = 0;
  float* scales = nullptr;      // [precise rows]
  const int* places = nullptr;  // [all rows]: a row's place among the precise ones, or -1; or none: all are
  __device__ std::int64_t place_of(std::int64_t row) const { return places == nullptr ? row : places[row]; }
};
inline LowRows low_rows(const LowOut& low, const PreciseRows& precise) {
  if (!low) return {};
  return {.values = reinterpret_cast<std::uint8_t*>(low.values.address()),
          .stride = low.values.stride,
          .scales = reinterpret_cast<float*>(low.scales.address()),
          .places = precise ? reinterpret_cast<const int*>(precise.places.address()) : nullptr};
}

// What FP16 loses of x; nothing where x leaves its range, which the f16 value tells.
__device__ inline float lost_by_half(float x) {
  const float rest = x - __half2float(__float2half_rn(x));
  return isfinite(rest) ? rest : 0.0F;
}

// A row's scale, from the largest magnitude, which then comes to lie in [128, 256); and the factor that takes values
// there. Both are 0 for a row without any.
struct LowScale {
  float scale, factor;
};
__device__ inline LowScale low_scale(float most) {
  if (!(most > 0)) return {0.0F, 0.0F};
  int exponent = 0;
  frexpf(most, &exponent);
  exponent = max(exponent, -110);  // 2^(8 - exponent) must be finite
  return {ldexpf(1.0F, exponent - 8), ldexpf(1.0F, 8 - exponent)};
}

__device__ inline std::uint32_t low_bytes(float a, float b, float c, float d) {
  const std::uint32_t first = __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
  const std::uint32_t second = __nv_cvt_float2_to_fp8x2(make_float2(c, d), __NV_SATFINITE, __NV_E4M3);
  return first | second << 16;
}

}  // namespace clef::cuda
