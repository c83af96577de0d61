// What the kernels of Gated DeltaNet share: finding a sequence, eight halves at a time, storing with saturation, gates.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace clef::cuda {

// Sixteen lanes hold a head of 128 features, eight adjacent ones each, and load them 16 bytes at a time.
inline constexpr int kLanesPerHead = 16;
inline constexpr int kFeaturesPerLane = 8;

// The last of `count` ascending values that is not past the target, as value(0) is: a whole warp looks, and all its
// lanes learn the place.
template <typename Value>
__device__ inline int last_not_past(int target, int count, const Value& value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int first = 0;
  while (count > 1) {
    const int stride = (count + 31) / 32, place = lane * stride;
    const bool not_past = place < count && value(first + place) <= target;
    const int skipped = (__popc(__ballot_sync(~0U, not_past)) - 1) * stride;
    first += skipped;
    count = min(stride, count - skipped);
  }
  return first;
}

// The sequence that holds the token, for a whole warp.
__device__ inline int sequence_of(const int* cu_seqlens, int sequences, int token) {
  return last_not_past(token, sequences, [=](int sequence) { return __ldg(cu_seqlens + sequence); });
}

__device__ inline std::uint32_t pack(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<const std::uint32_t&>(pair);
}
__device__ inline float2 unpack(std::uint32_t pair) { return __half22float2(reinterpret_cast<const __half2&>(pair)); }

__device__ inline uint4 load_bits(const __half* from) { return __ldg(reinterpret_cast<const uint4*>(from)); }
__device__ inline void unpack8(const uint4& bits, float (&x)[kFeaturesPerLane]) {
  const std::uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = unpack(words[i]);
    x[2 * i] = pair.x;
    x[2 * i + 1] = pair.y;
  }
}
__device__ inline uint4 pack8(const float (&x)[kFeaturesPerLane]) {
  return {pack(x[0], x[1]), pack(x[2], x[3]), pack(x[4], x[5]), pack(x[6], x[7])};
}

// The nearest FP16 value; overflowed becomes true where there is no finite one (NaN is stored as 0).
__device__ inline __half saturated(float x, bool& overflowed) {
  constexpr float kLargest = 65504.0F;
  const __half rounded = __float2half_rn(x);
  if (!__hisinf(rounded) && !__hisnan(rounded)) return rounded;
  overflowed = true;
  return __float2half_rn(isnan(x) ? 0.0F : copysignf(kLargest, x));
}

// The same for eight halves that are already rounded; true if one was not finite. Short, since it stands in many
// places.
__device__ inline bool saturate(uint4& bits) {
  std::uint32_t* const words[4] = {&bits.x, &bits.y, &bits.z, &bits.w};
  std::uint32_t carries = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) carries |= (*words[i] & 0x7C007C00U) + 0x04000400U;  // an exponent of ones carries
  if ((carries & 0x80008000U) == 0) return false;
  const __half2 largest = __float2half2_rn(65504.0F);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    __half2& pair = reinterpret_cast<__half2&>(*words[i]);
    const std::uint32_t numbers = __heq2_mask(pair, pair);
    pair = __hmax2(__hmin2(pair, largest), __hneg2(largest));
    *words[i] &= numbers;
  }
  return true;
}

// The sum over a head's sixteen lanes, in one order for all of them.
__device__ inline float sum_over_head(float x) {
#pragma unroll
  for (int distance = kLanesPerHead / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(~0U, x, distance);
  return x;
}

// One and a half units in the last place, which FP16 results do not see.
__device__ inline float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
inline constexpr float kLog2E = 1.44269504F;
__device__ inline float silu(float x) { return x * reciprocal(1.0F + exp2_approximate(-kLog2E * x)); }

// Of these there is one a token and head.
__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
__device__ inline float softplus(float x) { return x > 20.0F ? x : log1pf(expf(x)); }  // PyTorch's threshold

}  // namespace clef::cuda
