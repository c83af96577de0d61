// BF16 and F32 weights as scaled FP16, with a count of the values that did not survive.
// Bound: memory.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <algorithm>

#include "backend/cuda/reencode.h"

namespace clef::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ float widen(float x) { return x; }

template <typename From>
__global__ void __launch_bounds__(kThreads) reencode_kernel(__half* to, const From* from, std::int64_t count,
                                                            float scale, float unscale, ReencodeCounts* counts) {
  unsigned long long rounded = 0, overflown = 0;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += stride) {
    const float value = widen(from[i]);
    const __half half = __float2half_rn(value * scale);
    if (__hisinf(half) != 0 || __hisnan(half)) {
      ++overflown;
    } else if (__half2float(half) * unscale != value) {
      ++rounded;
    }
    to[i] = half;
  }
  if (rounded != 0) atomicAdd(&counts->rounded, rounded);
  if (overflown != 0) atomicAdd(&counts->overflown, overflown);
}

__global__ void __launch_bounds__(kThreads)
    reencode_low_kernel(std::uint8_t* to, std::int64_t to_stride, const __half* from, std::int64_t rows,
                        std::int64_t columns, float factor) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < rows * to_stride;
       i += stride) {
    const std::int64_t row = i / to_stride, column = i % to_stride;
    const float value = column < columns ? __half2float(from[row * columns + column]) * factor : 0.0F;
    to[i] = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  }
}

unsigned grid_of(std::int64_t count) {
  constexpr std::int64_t kMostBlocks = 4096;
  return static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMostBlocks));
}

}  // namespace

cudaError_t reencode(__half* to, const void* from, DType dtype, std::int64_t count, int exponent,
                     ReencodeCounts* counts, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  const unsigned grid = grid_of(count);
  const float scale = exp2f(static_cast<float>(exponent)), unscale = exp2f(static_cast<float>(-exponent));
  if (dtype == DType::bf16) {
    reencode_kernel<<<grid, kThreads, 0, stream>>>(to, static_cast<const __nv_bfloat16*>(from), count, scale, unscale,
                                                   counts);
  } else {
    reencode_kernel<<<grid, kThreads, 0, stream>>>(to, static_cast<const float*>(from), count, scale, unscale, counts);
  }
  return cudaGetLastError();
}

cudaError_t reencode_low(std::uint8_t* to, std::int64_t to_stride, const __half* from, std::int64_t rows,
                         std::int64_t columns, float factor, cudaStream_t stream) {
  if (rows * to_stride == 0) return cudaSuccess;
  reencode_low_kernel<<<grid_of(rows * to_stride), kThreads, 0, stream>>>(to, to_stride, from, rows, columns, factor);
  return cudaGetLastError();
}

}  // namespace clef::cuda
