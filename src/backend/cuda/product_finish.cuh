// What follows a tile of the product for Hopper, lane by lane: activation, bias, and the way into memory.
#pragma once

#include <cstdint>

#include "backend/cuda/attention_wgmma.cuh"
#include "backend/cuda/product_sm90.h"

namespace clef::cuda {
namespace {

constexpr int kGroup = 16;  // rows of the weights that are reordered among themselves

// Zero for -infinity's like; a result of __fdividef is good to two units in the last place.
__device__ __forceinline__ float silu_of(float x) { return __fdividef(x, 1.0F + __expf(-x)); }

// x / 2 (1 + tanh(u)) = x / (1 + exp(-2u))
__device__ __forceinline__ float gelu_tanh_of(float x) {
  const float u = 0.79788456080286536F * (x + 0.044715F * x * x * x);
  return __fdividef(x, 1.0F + __expf(-2.0F * u));
}

// A warpgroup's 64 rows of a tile: kColumns columns, of which this lane has four of every sixteen, in two rows; they
// lie side by side where the weights came in groups. What is rare stands in loops of its own behind one branch each: a
// branch an element made the code larger than the instruction cache, and a tile's end as long as its products.
template <int kColumns>
struct Finish {
  static constexpr int kPairs = kColumns / 8;  // of sums of neighbouring columns, in each of the two rows
  void* y;
  std::int64_t stride;
  int rows[2];  // where the lane's two rows go, or -1
  int columns;
  int column;  // of the tile's first
  bool grouped, add;

  __device__ int column_of(int pair) const {
    const int lane = static_cast<int>(threadIdx.x % 4);
    return column + (grouped ? pair / 2 * kGroup + lane * 4 + pair % 2 * 2 : pair * 8 + lane * 2);
  }

  __device__ void add_bias(const float* bias, float (&sum)[kColumns / 2]) const {
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const int c = column_of(p);
      const float first = c < columns ? bias[c] : 0.0F;
      const float second = c + 1 < columns ? bias[c + 1] : 0.0F;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sum[4 * p + 2 * half] += first;
        sum[4 * p + 2 * half + 1] += second;
      }
    }
  }

  // A pair's sums: the gate's, then as many of the other's. Those of the rows `from`, or -1, join them.
  __device__ void add_low_sums(const __half* low_sums, const int (&from)[2], float (&sum)[kColumns]) const {
    constexpr float kUnit = 1.0F / kRemainderScale;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (from[half] < 0) continue;
#pragma unroll
      for (int matrix = 0; matrix < 2; ++matrix) {
        const __half* row = low_sums + (std::int64_t{from[half]} * 2 + matrix) * columns;
#pragma unroll
        for (int p = 0; p < kPairs; ++p) {
          const int c = column_of(p), at = matrix * (kColumns / 2) + 4 * p + 2 * half;
          if (grouped) {  // a pair's columns lie on four bytes
            if (c >= columns) continue;
            const float2 both = __half22float2(*reinterpret_cast<const __half2*>(row + c));
            sum[at] = __fmaf_rn(both.x, kUnit, sum[at]);
            sum[at + 1] = __fmaf_rn(both.y, kUnit, sum[at + 1]);
          } else {
            if (c < columns) sum[at] = __fmaf_rn(__half2float(row[c]), kUnit, sum[at]);
            if (c + 1 < columns) sum[at + 1] = __fmaf_rn(__half2float(row[c + 1]), kUnit, sum[at + 1]);
          }
        }
      }
    }
  }

  // Adding is left to the second-level cache: one addition an element, so its order is no question, and nothing waits
  // for the y that was there.
  __device__ void store_f32(const float (&sum)[kColumns / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (rows[half] < 0) continue;
      float* to = static_cast<float*>(y) + rows[half] * stride;
      if (grouped) {
#pragma unroll
        for (int p = 0; p < kPairs; p += 2) {
          const int c = column_of(p), at = 4 * p + 2 * half;
          if (c >= columns) continue;
          if (add) {
            asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + c), "f"(sum[at]),
                         "f"(sum[at + 1]), "f"(sum[at + 4]), "f"(sum[at + 5])
                         : "memory");
          } else {
            *reinterpret_cast<float4*>(to + c) = make_float4(sum[at], sum[at + 1], sum[at + 4], sum[at + 5]);
          }
        }
      } else {
        each_alone(to, sum, half, [&](float value, float& place) { place = add ? place + value : value; });
      }
    }
  }

  __device__ void store_f16(const float (&sum)[kColumns / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (rows[half] < 0) continue;
      __half* to = static_cast<__half*>(y) + rows[half] * stride;
      if (grouped) {
#pragma unroll
        for (int p = 0; p < kPairs; p += 2) {
          const int c = column_of(p), at = 4 * p + 2 * half;
          const uint2 word = make_uint2(pack_halves(sum[at], sum[at + 1]), pack_halves(sum[at + 4], sum[at + 5]));
          if (c < columns) *reinterpret_cast<uint2*>(to + c) = word;
        }
      } else {
        each_alone(to, sum, half, [](float value, __half& place) { place = __float2half_rn(value); });
      }
    }
  }

 private:
  template <typename T, typename Put>
  __device__ void each_alone(T* to, const float (&sum)[kColumns / 2], int half, Put put) const {
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const int c = column_of(p);
      if (c < columns) put(sum[4 * p + 2 * half], to[c]);
      if (c + 1 < columns) put(sum[4 * p + 2 * half + 1], to[c + 1]);
    }
  }
};

}  // namespace
}  // namespace clef::cuda
