// What the kernels of Gated DeltaNet share: finding a sequence, eight halves at a time, storing with saturation, gates.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace clef::cuda {

// Sixteen lanes hold a head of 128 features, eight adjacent ones each, and load them 16 bytes at a time.
inline constexpr int kLanesPerHead = 16;
inline constexpr int kFeaturesPerLane = 8;

// The sequence that holds the token: the last whose start is not past it.
__device__ inline int sequence_of(const int* cu_seqlens, int sequences, int token) {
  int low = 0, high = sequences;  // cu_seqlens[low] <= token < cu_seqlens[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (__ldg(cu_seqlens + middle) <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ inline void load8(const __half* from, float (&x)[kFeaturesPerLane]) {
  const uint4 bits = __ldg(reinterpret_cast<const uint4*>(from));
  const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __half22float2(reinterpret_cast<const __half2&>(words[i]));
    x[2 * i] = pair.x;
    x[2 * i + 1] = pair.y;
  }
}

// The nearest FP16 value; overflowed becomes true where there is no finite one (beyond 65504, or NaN, stored as 0).
__device__ inline __half saturated(float x, bool& overflowed) {
  constexpr float kLargest = 65504.0F;
  if (!(fabsf(x) <= kLargest)) {
    overflowed = true;
    x = isnan(x) ? 0.0F : copysignf(kLargest, x);
  }
  return __float2half_rn(x);
}

__device__ inline std::uint32_t saturated2(float low, float high, bool& overflowed) {
  const __half2 pair = __halves2half2(saturated(low, overflowed), saturated(high, overflowed));
  return reinterpret_cast<const std::uint32_t&>(pair);
}

__device__ inline void store8(__half* to, const float (&x)[kFeaturesPerLane], bool& overflowed) {
  uint4 bits;
  bits.x = saturated2(x[0], x[1], overflowed);
  bits.y = saturated2(x[2], x[3], overflowed);
  bits.z = saturated2(x[4], x[5], overflowed);
  bits.w = saturated2(x[6], x[7], overflowed);
  *reinterpret_cast<uint4*>(to) = bits;
}

// The sum over a head's sixteen lanes, in one order for all of them.
__device__ inline float sum_over_head(float x) {
#pragma unroll
  for (int distance = kLanesPerHead / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(~0U, x, distance);
  return x;
}

__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
__device__ inline float silu(float x) { return x / (1.0F + expf(-x)); }
// PyTorch's threshold.
__device__ inline float softplus(float x) { return x > 20.0F ? x : log1pf(expf(x)); }

}  // namespace clef::cuda
