// What follows a tile of the product for Hopper, lane by lane: activation, bias, and the way into memory.
#pragma once

#include <cstdint>

#include "backend/cuda/product_shape.cuh"
#include "backend/cuda/product_sm90.h"

namespace clef::cuda {
namespace {

// x / 2 (1 + tanh(u)) = x / (1 + exp(-2u))
__device__ __forceinline__ float gelu_tanh_of(float x) {
  const float u = 0.79788456080286536F * (x + 0.044715F * x * x * x);
  return times_logistic(x, 2.0F * kLog2E * u);
}

// A warpgroup's 64 rows of a tile: kColumns columns, of which this lane has four of every sixteen, in two rows; they
// lie side by side where the weights came in groups. What is rare stands in loops of its own behind one branch each: a
// branch an element made the code larger than the instruction cache, and a tile's end as long as its products.
template <int kColumns>
struct Finish {
  static constexpr int kPairs = kColumns / 8;  // of sums of neighbouring columns, in each of the two rows
  void* y;
  std::int64_t stride;
  int rows[2];      // where the lane's two rows go, or -1
  int column;       // of the tile's first
  int first, last;  // columns that it stores: all from first, before last
  bool grouped, add;

  __device__ bool owns(int c) const { return c >= first && c < last; }

  __device__ int column_of(int pair) const {
    const int lane = static_cast<int>(threadIdx.x % 4);
    return column + (grouped ? pair / 2 * kGroup + lane * 4 + pair % 2 * 2 : pair * 8 + lane * 2);
  }

  __device__ void add_bias(const float* bias, float (&sum)[kColumns / 2]) const {
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const int c = column_of(p);
      const float left = owns(c) ? bias[c] : 0.0F, right = owns(c + 1) ? bias[c + 1] : 0.0F;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sum[4 * p + 2 * half] += left;
        sum[4 * p + 2 * half + 1] += right;
      }
    }
  }

  // A pair's sums: the gate's, then as many of the other's. Those of the rows `from`, or -1, join them. A row's words
  // are asked for together: one after the other they took 6 us of a tile's 40.
  __device__ void add_low_sums(const __half* low_sums, const int (&from)[2], float (&sum)[kColumns]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (from[half] < 0) continue;
#pragma unroll
      for (int matrix = 0; matrix < 2; ++matrix) {
        const __half* row = low_sums + (std::int64_t{from[half]} * 2 + matrix) * last;
        const int first_sum = matrix * (kColumns / 2) + 2 * half;
        if (grouped) {
          uint2 words[kPairs / 2];
#pragma unroll
          for (int i = 0; i < kPairs / 2; ++i) {
            const int c = column_of(2 * i);
            words[i] = owns(c) ? *reinterpret_cast<const uint2*>(row + c) : make_uint2(0, 0);
          }
#pragma unroll
          for (int i = 0; i < kPairs / 2; ++i) {
            if (!owns(column_of(2 * i))) continue;
            add_low(sum[first_sum + 8 * i], sum[first_sum + 8 * i + 1], words[i].x);
            add_low(sum[first_sum + 8 * i + 4], sum[first_sum + 8 * i + 5], words[i].y);
          }
        } else {
#pragma unroll
          for (int p = 0; p < kPairs; ++p) {
            const int c = column_of(p), at = first_sum + 4 * p;
            if (owns(c)) sum[at] = __fmaf_rn(__half2float(row[c]), kLowUnit, sum[at]);
            if (owns(c + 1)) sum[at + 1] = __fmaf_rn(__half2float(row[c + 1]), kLowUnit, sum[at + 1]);
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
          if (!owns(c)) continue;
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
          if (owns(c)) *reinterpret_cast<uint2*>(to + c) = word;
        }
      } else {
        each_alone(to, sum, half, [](float value, __half& place) { place = __float2half_rn(value); });
      }
    }
  }

 private:
  static constexpr float kLowUnit = 1.0F / kRemainderScale;
  static __device__ void add_low(float& left, float& right, std::uint32_t halves) {
    const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&halves));
    left = __fmaf_rn(both.x, kLowUnit, left);
    right = __fmaf_rn(both.y, kLowUnit, right);
  }
  template <typename T, typename Put>
  __device__ void each_alone(T* to, const float (&sum)[kColumns / 2], int half, Put put) const {
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      const int c = column_of(p);
      if (owns(c)) put(sum[4 * p + 2 * half], to[c]);
      if (owns(c + 1)) put(sum[4 * p + 2 * half + 1], to[c + 1]);
    }
  }
};

// By a warpgroup with the tile's rows from 64 * `block` on.
template <typename S, bool kF32>
__device__ void finish_tile(const Params& params, const Place& place, int block, int thread,
                            float (&sum)[S::kColumns / 2]) {
  constexpr int kCount = S::kColumns / 2;
  const int row = place.from_row + block * 64 + thread / kWarpSize * 16 + thread % kWarpSize / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row + 8 * half;
    const float scale = params.alpha * (params.row_scale == nullptr || r >= params.rows ? 1.0F : params.row_scale[r]);
#pragma unroll
    for (int i = 2 * half; i < kCount; i += 4) {
      sum[i] *= scale;
      sum[i + 1] *= scale;
    }
  }
  const auto of_row = [&](const int* numbers, int r, int none) {
    return !place.owns_row(params.rows, r) ? -1 : numbers == nullptr ? none : numbers[r];
  };
  const Finish<S::kOutColumns> finish{
      params.y,          params.y_stride, {of_row(params.to_rows, row, row), of_row(params.to_rows, row + 8, row + 8)},
      place.from_column, place.column,    params.columns,
      params.grouped,    params.add};
  if constexpr (S::kPair) {
    const auto precise_place = [&](int r) { return params.low_sums == nullptr ? -1 : of_row(params.places, r, r); };
    const int places[2] = {precise_place(row), precise_place(row + 8)};
    const bool is_precise = places[0] >= 0 || places[1] >= 0;
    if (is_precise) finish.add_low_sums(params.low_sums, places, sum);
    auto& out = reinterpret_cast<float(&)[kCount / 2]>(sum);  // in place: registers are few
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) out[i] = fast_silu(sum[i]) * sum[i + kCount / 2];
    kF32 ? finish.store_f32(out) : finish.store_f16(out);
    if (!kF32 && is_precise) {
#pragma unroll
      for (float& value : out) value = (value - __half2float(__float2half_rn(value))) * kRemainderScale;
      Finish<S::kOutColumns> rest = finish;
      rest.y = params.remainder;
      rest.stride = params.columns;
      rest.rows[0] = places[0];
      rest.rows[1] = places[1];
      rest.store_f16(out);
    }
  } else if (place.is_gates) {
    Finish<S::kOutColumns> of_gates = finish;
    of_gates.y = params.gates;
    of_gates.stride = params.gates_stride;
    of_gates.last = params.gate_columns;
    of_gates.store_f32(sum);
  } else {
    if (params.bias != nullptr) finish.add_bias(params.bias, sum);
    if (!kF32 && params.gelu) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum[i] = gelu_tanh_of(sum[i]);
    }
    kF32 ? finish.store_f32(sum) : finish.store_f16(sum);
  }
}

}  // namespace
}  // namespace clef::cuda
