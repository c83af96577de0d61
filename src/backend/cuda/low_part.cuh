// How the low part of a row is made (ops/low_part.h), by the block that holds the row, and whose rows need zeros.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "backend/cuda/lanes.cuh"
#include "ops/low_part.h"

namespace clef::cuda {

// A cluster's tiles of the product cover rows inside one such stretch, so what is not precise is read of no row of a
// stretch without a precise one.
inline constexpr int kStretch = 768;

// By the whole block.
template <int kThreads>
__device__ bool any_precise(const int* precise, std::int64_t row, std::int64_t rows) {
  const std::int64_t first = row / kStretch * kStretch;
  bool found = false;
#pragma unroll
  for (int i = 0; i < kStretch / kThreads; ++i) {
    const std::int64_t r = first + i * kThreads + threadIdx.x;
    found = found || (r < rows && precise[r] != 0);
  }
  return __syncthreads_or(found);
}

struct LowRows {
  std::uint8_t* values = nullptr;  // rows `stride` bytes apart; none where no low part is wanted
  std::int64_t stride = 0;
  float* scales = nullptr;
  const int* precise = nullptr;  // or none: all are
  std::int64_t rows = 0;
};
inline LowRows low_rows(const LowOut& low, const Tensor& precise) {
  if (!low) return {};
  return {.values = reinterpret_cast<std::uint8_t*>(low.values.address()),
          .stride = low.values.stride,
          .scales = reinterpret_cast<float*>(low.scales.address()),
          .precise = precise ? reinterpret_cast<const int*>(precise.address()) : nullptr,
          .rows = low.values.rows};
}

// What a row's low part is to hold.
enum class LowRow { none, zeros, values };
// By the whole block.
template <int kThreads>
__device__ LowRow low_row(const LowRows& low, std::int64_t row) {
  if (low.precise == nullptr || low.precise[row] != 0) return LowRow::values;
  return any_precise<kThreads>(low.precise, row, low.rows) ? LowRow::zeros : LowRow::none;
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
