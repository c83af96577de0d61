// What the kernels of Gated DeltaNet share: finding a sequence, eight halves at a time, saturation, gates.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/tile.cuh"

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

// Where a token's gates lie, whose sequence begins with token `first` of all: among the known or among the new ones.
struct GatePlace {
  template <typename Args>
  __device__ GatePlace(const Args& args, int sequence, int first, int token, int head)
      : is_known(token - first < args.prefix_tokens),
        row(is_known ? token - first : token - (sequence + 1) * args.prefix_tokens) {
    const std::int64_t place = row * (is_known ? args.prefix_stride : args.ba_stride) + head;
    a = (is_known ? args.prefix_a : args.a) + place;
    b = (is_known ? args.prefix_b : args.b) + place;
  }
  bool is_known;
  std::int64_t row;
  const float *a, *b;
};

// Eight adjacent features as they lie in memory, 16-byte aligned.
template <typename T>
struct Bits8;
template <>
struct Bits8<__half> {
  uint4 words;
};
template <>
struct Bits8<float> {
  float4 low, high;
};
__device__ inline Bits8<__half> load_bits(const __half* from) { return {__ldg(reinterpret_cast<const uint4*>(from))}; }
__device__ inline Bits8<float> load_bits(const float* from) {
  const auto* const pieces = reinterpret_cast<const float4*>(from);
  return {__ldg(pieces), __ldg(pieces + 1)};
}
__device__ inline void store_bits(__half* to, const Bits8<__half>& bits) { *reinterpret_cast<uint4*>(to) = bits.words; }
__device__ inline void store_bits(float* to, const Bits8<float>& bits) {
  auto* const pieces = reinterpret_cast<float4*>(to);
  pieces[0] = bits.low;
  pieces[1] = bits.high;
}
__device__ inline void unpack8(const Bits8<__half>& bits, float (&x)[kFeaturesPerLane]) {
  const std::uint32_t words[4] = {bits.words.x, bits.words.y, bits.words.z, bits.words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = unpack_halves(words[i]);
    x[2 * i] = pair.x;
    x[2 * i + 1] = pair.y;
  }
}
__device__ inline void unpack8(const Bits8<float>& bits, float (&x)[kFeaturesPerLane]) {
  x[0] = bits.low.x, x[1] = bits.low.y, x[2] = bits.low.z, x[3] = bits.low.w;
  x[4] = bits.high.x, x[5] = bits.high.y, x[6] = bits.high.z, x[7] = bits.high.w;
}
__device__ inline void pack8(const float (&x)[kFeaturesPerLane], Bits8<__half>& bits) {
  bits.words = {pack_halves(x[0], x[1]), pack_halves(x[2], x[3]), pack_halves(x[4], x[5]), pack_halves(x[6], x[7])};
}
__device__ inline void pack8(const float (&x)[kFeaturesPerLane], Bits8<float>& bits) {
  bits = {make_float4(x[0], x[1], x[2], x[3]), make_float4(x[4], x[5], x[6], x[7])};
}

// Infinities become the largest finite values and NaN 0; true if there were any among the eight halves.
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

__device__ inline float logistic(float x) { return 1.0F / (1.0F + expf(-x)); }
// x / (1 + e^-x), to the last bits that the result's type shows.
template <typename T>
__device__ inline float silu_for(float x) {
  return x / (1.0F + expf(-x));
}
template <>
__device__ inline float silu_for<__half>(float x) {
  return fast_silu(x);
}
__device__ inline float softplus(float x) { return x > 20.0F ? x : log1pf(expf(x)); }  // PyTorch's threshold

}  // namespace clef::cuda
