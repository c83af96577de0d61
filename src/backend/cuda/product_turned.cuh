// What follows a turned tile of the product for Hopper, whose rows are weights and whose columns are y's rows.
#pragma once

#include "backend/cuda/product_finish.cuh"

namespace clef::cuda {
namespace {

// What a lane holds: of two rows of the tile in every sixteen, which are neighbours in y or a pair's gate and its
// other, two in every eight of y's rows. Eight lanes have neighbouring columns of the same of y's rows.
template <typename S>
struct Turned {
  static constexpr int kBlocks = S::kColumns / 8;
  const Params& params;
  const Place& place;
  int row, column;  // in y: of the lane's first sum, and of the two weights, or of a pair's one

  __device__ Turned(const Params& params_, const Place& place_, int block, int thread)
      : params(params_), place(place_) {
    const int group = (block * kWarpgroup + thread) / kWarpSize, lane = thread % kWarpSize;
    row = place.from_row + lane % 4 * 2;
    column = place.from_column + (S::kPair ? group * (kGroup / 2) + lane / 4 : group * kGroup + lane / 4 * 2);
  }
  __device__ int row_of(int block, int second) const { return row + block * 8 + second; }
  __device__ bool owns_column(int columns) const { return column >= place.column && column < columns; }

  __device__ void scale(float (&sum)[S::kColumns / 2]) const {
    if (params.row_scale == nullptr) {
#pragma unroll
      for (float& value : sum) value *= params.alpha;
      return;
    }
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int r = row_of(b, e);
        const float scale = params.alpha * (r < params.rows ? params.row_scale[r] : 1.0F);
        sum[4 * b + e] *= scale;
        sum[4 * b + 2 + e] *= scale;
      }
    }
  }

  // put(r, left, right) for each of the tile's own rows r that the lane has, with the sums of its two columns.
  template <typename Put>
  __device__ void each_row(const float (&sum)[S::kColumns / 2], Put put) const {
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int r = row_of(b, e);
        if (place.owns_row(params.rows, r)) put(r, sum[4 * b + e], sum[4 * b + 2 + e]);
      }
    }
  }
  __device__ void store_f32(float* y, std::int64_t stride, int columns, const float (&sum)[S::kColumns / 2]) const {
    if (!owns_column(columns)) return;
    each_row(sum, [&](int r, float left, float right) {
      float* to = y + (params.to_rows == nullptr ? r : params.to_rows[r]) * stride + column;
      if (params.add) {
        asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(left), "f"(right) : "memory");
      } else {
        *reinterpret_cast<float2*>(to) = make_float2(left, right);
      }
    });
  }
  __device__ void store_f16(const float (&sum)[S::kColumns / 2]) const {
    if (!owns_column(params.columns)) return;
    __half* y = static_cast<__half*>(params.y) + column;
    each_row(sum, [&](int r, float left, float right) {
      *reinterpret_cast<std::uint32_t*>(y + r * params.y_stride) = pack_halves(left, right);
    });
  }

  // A pair's two outputs of a block, of two of y's rows in one column: two lanes of neighbouring columns exchange one,
  // so that each has a word of one row. Rows that are -1 get none.
  __device__ void store_words(__half* to, std::int64_t stride, const int (&rows)[2], float left, float right) const {
    const bool odd = column % 2 != 0;
    const float got = __shfl_xor_sync(0xffffffffU, odd ? left : right, 4);
    const int r = odd ? rows[1] : rows[0];
    if (r < 0 || !owns_column(params.columns)) return;
    *reinterpret_cast<std::uint32_t*>(to + r * stride + (column - (odd ? 1 : 0))) =
        odd ? pack_halves(got, right) : pack_halves(left, got);
  }
  // Of y's two rows in a block, or -1 where they are not the tile's own.
  __device__ void rows_of(int block, int (&rows)[2]) const {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int r = row_of(block, e);
      rows[e] = place.owns_row(params.rows, r) ? r : -1;
    }
  }
  // The places of the tile's rows among the precise ones, or -1, looked up by a warp's lanes together: row 32 i + l is
  // lane l's. So whole blocks of rows that are not precise are passed over.
  struct Places {
    static constexpr int kWords = (S::kColumns + 31) / 32;
    int own[kWords];
    std::uint32_t precise[kWords];  // a bit a row
    __device__ bool has_block(int block) const { return (precise[block / 4] >> (block % 4 * 8) & 0xffU) != 0; }
    // Of the lane's row `second` in a block; by all lanes.
    __device__ int of(int block, int second) const {
      return __shfl_sync(0xffffffffU, own[block / 4], block % 4 * 8 + static_cast<int>(threadIdx.x % 4) * 2 + second);
    }
  };
  __device__ Places places() const {
    Places found;
    const int lane = static_cast<int>(threadIdx.x % kWarpSize);
#pragma unroll
    for (int i = 0; i < Places::kWords; ++i) {
      const int r = place.from_row + i * 32 + lane;
      const bool owns = i * 32 + lane < S::kColumns && place.owns_row(params.rows, r);
      found.own[i] = !owns ? -1 : params.places == nullptr ? r : params.places[r];
      found.precise[i] = __ballot_sync(0xffffffffU, found.own[i] >= 0);
    }
    return found;
  }
  // Four blocks' words are asked for together.
  __device__ void add_low_sums(const Places& places, float (&sum)[S::kColumns / 2]) const {
    constexpr float kUnit = 1.0F / kRemainderScale;
    const bool owns = owns_column(params.columns);
#pragma unroll
    for (int first = 0; first < kBlocks; first += 4) {
      if (places.precise[first / 4] == 0) continue;
      constexpr int kWords = 16;
      __half low[kWords];
      bool joins[kWords / 2];
#pragma unroll
      for (int i = 0; i < kWords / 2 && first + i / 2 < kBlocks; ++i) {
        const int from = places.of(first + i / 2, i % 2);
        joins[i] = from >= 0 && owns;
        const __half* at = params.low_sums + std::int64_t{max(from, 0)} * 2 * params.columns + column;
        low[2 * i] = joins[i] ? at[0] : __half{};
        low[2 * i + 1] = joins[i] ? at[params.columns] : __half{};
      }
#pragma unroll
      for (int i = 0; i < kWords / 2 && first + i / 2 < kBlocks; ++i) {
        if (!joins[i]) continue;
        float &gate = sum[4 * (first + i / 2) + i % 2], &up = sum[4 * (first + i / 2) + 2 + i % 2];
        gate = __fmaf_rn(__half2float(low[2 * i]), kUnit, gate);
        up = __fmaf_rn(__half2float(low[2 * i + 1]), kUnit, up);
      }
    }
  }
  // What is rare stands in loops of its own, as in Finish.
  __device__ void store_pair(float (&sum)[S::kColumns / 2]) const {
    if (params.up_first) {
#pragma unroll
      for (int i = 0; i < S::kColumns / 2; i += 4) {
        const float first = sum[i], second = sum[i + 1];
        sum[i] = sum[i + 2];
        sum[i + 1] = sum[i + 3];
        sum[i + 2] = first;
        sum[i + 3] = second;
      }
    }
    Places precise;
    if (params.low_sums != nullptr) {
      precise = places();
      add_low_sums(precise, sum);
    }
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      int rows[2];
      rows_of(b, rows);
#pragma unroll
      for (int i = 4 * b; i < 4 * b + 2; ++i) sum[i] = fast_silu(sum[i]) * sum[i + 2];
      store_words(static_cast<__half*>(params.y), params.y_stride, rows, sum[4 * b], sum[4 * b + 1]);
    }
    if (params.low_sums == nullptr) return;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      if (!precise.has_block(b)) continue;
      const int to[2] = {precise.of(b, 0), precise.of(b, 1)};
#pragma unroll
      for (int i = 4 * b; i < 4 * b + 2; ++i) {
        sum[i] = (sum[i] - __half2float(__float2half_rn(sum[i]))) * kRemainderScale;
      }
      store_words(params.remainder, params.columns, to, sum[4 * b], sum[4 * b + 1]);
    }
  }
};

// By a warpgroup with the tile's rows from 64 * `block` on.
template <typename S, bool kF32>
__device__ void finish_turned(const Params& params, const Place& place, int block, int thread,
                              float (&sum)[S::kColumns / 2]) {
  const Turned<S> turned(params, place, block, thread);
  turned.scale(sum);
  if constexpr (S::kPair) {
    static_assert(!kF32);
    turned.store_pair(sum);
  } else if (place.is_gates) {
    turned.store_f32(params.gates, params.gates_stride, params.gate_columns, sum);
  } else {
    if (params.bias != nullptr && turned.owns_column(params.columns)) {
      const float bias[2] = {params.bias[turned.column], params.bias[turned.column + 1]};
#pragma unroll
      for (int i = 0; i < S::kColumns / 2; ++i) sum[i] += bias[i / 2 % 2];
    }
    if (!kF32 && params.gelu) {
#pragma unroll
      for (float& value : sum) value = gelu_tanh_of(value);
    }
    if constexpr (kF32) {
      turned.store_f32(static_cast<float*>(params.y), params.y_stride, params.columns, sum);
    } else {
      turned.store_f16(sum);
    }
  }
}

}  // namespace
}  // namespace clef::cuda
