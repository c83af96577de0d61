// What DeltaNet's first pass does to a chunk whatever the precision of its operands: gates, decays, the triangular
// inverse.
// Arithmetic: decays from sums of g / ln 2 in double, kept as two floats so that a small decay is not lost behind a
//             large one: D_ij = 2^((high_i - high_j) + (low_i - low_j)). The triangular inverse by 16 x 16 blocks:
//             those on the diagonal by substitution in f32, those below, T_ij = -(sum over j < k <= i of T_ik A_kj)
//             T_jj, with operands split in two halves (22 bits) and sums in f32.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/delta_net_common.cuh"
#include "backend/cuda/delta_net_split.cuh"
#include "backend/cuda/delta_net_tile.cuh"

namespace clef::cuda {

inline constexpr int kWarps = 4;                // of a block, each with kBlock of the chunk's rows
inline constexpr int kBlock = 16;               // rows of a warp, and of a block of the triangular inverse
inline constexpr int kBelow = kChunk - kBlock;  // rows, and columns, that blocks below the diagonal take
inline constexpr int kPlaneStride = 56;         // halves; 112 bytes, so that eight rows lie in different banks
inline constexpr int kBlockStride = 24;         // halves; 48 bytes, likewise
inline constexpr int kDiagonalStride = 20;      // floats; 80 bytes: rows start at 16-byte pieces

// e^g below this is 0 in f32, as is every product with it; the bound keeps sums of g exact enough.
inline constexpr float kLeastLogDecay = -128.0F;
inline constexpr double kLog2EExact = 1.4426950408889634;
// Sums of 64 such g / ln 2 are above -2^14: multiples of 2^-9 have 23 bits.
inline constexpr double kHighUnit = 1.0 / 512;

struct Planes {
  __half below_high[kBelow][kPlaneStride], below_low[kBelow][kPlaneStride];  // -A, from row kBlock on
  __half inverse_high[kWarps][kBlock][kBlockStride], inverse_low[kWarps][kBlock][kBlockStride];  // T_jj
  float diagonal[kWarps][kBlock][kDiagonalStride];  // -A_jj, transposed: [column][row]
};
// d += a * b, b [16, 16]; the product of the low parts is below f32.
__device__ __forceinline__ void multiply(float (&d)[2][4], const Split& a, const Split& b) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    multiply_add(d[n], a.low, b.high[2 * n], b.high[2 * n + 1]);
    multiply_add(d[n], a.high, b.low[2 * n], b.low[2 * n + 1]);
    multiply_add(d[n], a.high, b.high[2 * n], b.high[2 * n + 1]);
  }
}

__device__ __forceinline__ Split as_operand(const float (&d)[2][4]) {
  Split a;
  a.high[0] = split(d[0][0], d[0][1], a.low[0]);
  a.high[1] = split(d[0][2], d[0][3], a.low[1]);
  a.high[2] = split(d[1][0], d[1][1], a.low[2]);
  a.high[3] = split(d[1][2], d[1][3], a.low[3]);
  return a;
}

// What a lane's two tokens bring, loaded before it is needed.
struct GateInputs {
  float a[2], b[2], rate, bias;
};
// The chunk's first token is `first` of all, `start` that of its sequence.
template <typename Args>
__device__ __forceinline__ GateInputs load_gate_inputs(const Args& args, int sequence, int start, int first, int tokens,
                                                       int head) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  GateInputs in;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int token = first + min(2 * lane + i, tokens - 1);
    const GatePlace place(args, sequence, start, token, head);
    in.a[i] = __ldg(place.a);
    in.b[i] = __ldg(place.b);
  }
  in.rate = __ldg(args.neg_exp_a_log + head);
  in.bias = __ldg(args.dt_bias + head);
  return in;
}

// For decays between two tokens of a chunk: sums of g / ln 2 up to and with each, in two parts.
struct DecaySums {
  float high[kChunk], low[kChunk];
};

// Log-decays, their sums and beta of the chunk, by one warp, two tokens a lane, into the fields of that name in record.
// What is NaN becomes a beta of invalid_beta; false if a lane meets any.
template <typename Record>
__device__ __forceinline__ bool gates(const GateInputs& in, int tokens, float invalid_beta, DecaySums& sums,
                                      Record& record) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  double g[2];
  float beta[2];
  bool valid = true;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float log_decay = in.rate * softplus(in.a[i] + in.bias);
    beta[i] = logistic(in.b[i]);
    const bool present = 2 * lane + i < tokens, is_number = !isnan(log_decay) && !isnan(beta[i]);
    valid = valid && (is_number || !present);
    g[i] = present && is_number ? fmaxf(log_decay, kLeastLogDecay) : 0.0F;
    beta[i] = !present ? 0.0F : is_number ? beta[i] : invalid_beta;
  }
  double sum = g[0] + g[1];
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const double before = __shfl_up_sync(~0U, sum, distance);
    if (lane >= distance) sum += before;
  }
  const double last = __shfl_sync(~0U, sum, 31);
  const double gamma[2] = {sum - g[1], sum};
  const float scale = 1.0F / sqrtf(static_cast<float>(kDeltaNetHeadDim));
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int token = 2 * lane + i;
    const double bits = gamma[i] * kLog2EExact, high = rint(bits / kHighUnit) * kHighUnit;
    sums.high[token] = static_cast<float>(high);
    sums.low[token] = static_cast<float>(bits - high);
    const float decay = expf(static_cast<float>(gamma[i]));
    record.value_gates[lane][i] = beta[i];
    record.value_gates[lane][2 + i] = -(beta[i] * decay);
    record.query_decay[token] = scale * decay;
    record.decay_to_last[token] = expf(static_cast<float>(last - gamma[i]));
  }
  record.chunk_decay[lane] = expf(static_cast<float>(last));
  return valid;
}

__device__ __forceinline__ void store_pair(__half* panel, int row, int column, std::uint32_t pair) {
  *reinterpret_cast<std::uint32_t*>(reinterpret_cast<unsigned char*>(panel) + panel_offset(row, column / 8) +
                                    column % 8 * 2) = pair;
}

__device__ __forceinline__ void store_half(__half* panel, int row, int column, __half x) {
  reinterpret_cast<__half*>(reinterpret_cast<unsigned char*>(panel) + panel_offset(row, column / 8))[column % 8] = x;
}

// From K K^T and Q K^T, each times a power of two: A into the planes, and with store_scores(row, column, x, y) two
// neighbours of Q K^T, decayed, times score_scale; clear(row, column) for two neighbours in blocks above the diagonal.
template <typename Record, typename StoreScores, typename Clear>
__device__ __forceinline__ void apply_decays(Planes& planes, const DecaySums& sums, const Record& record, int warp,
                                             const float (&kk)[32], float key_scale, const float (&qk)[32],
                                             float score_scale, const StoreScores& store_scores, const Clear& clear) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = kBlock * warp + lane / 4;
  float high[2], low[2], beta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    high[half] = sums.high[first_row + 8 * half];
    low[half] = sums.low[first_row + 8 * half];
    beta[half] = record.value_gates[(first_row + 8 * half) / 2][first_row % 2];
  }
#pragma unroll
  for (int tile = 0; tile < 8; ++tile) {
    const int column = 8 * tile + lane % 4 * 2;
    const float2 high_j = *reinterpret_cast<const float2*>(&sums.high[column]);
    const float2 low_j = *reinterpret_cast<const float2*>(&sums.low[column]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = first_row + 8 * half, at = 4 * tile + 2 * half;
      if (tile / 2 > warp) {
        clear(i, column);
        continue;
      }
      const float decay_x = exp2_approximate((high[half] - high_j.x) + (low[half] - low_j.x));
      const float decay_y = exp2_approximate((high[half] - high_j.y) + (low[half] - low_j.y));
      float score_x = qk[at] * score_scale * decay_x, score_y = qk[at + 1] * score_scale * decay_y;
      float a_x = -beta[half] * (kk[at] * key_scale * decay_x), a_y = -beta[half] * (kk[at + 1] * key_scale * decay_y);
      if (tile / 2 == warp) {  // above the diagonal the decays grow, to infinity
        score_x = column <= i ? score_x : 0.0F;
        score_y = column + 1 <= i ? score_y : 0.0F;
        planes.diagonal[warp][column % kBlock][i % kBlock] = column < i ? a_x : 0.0F;
        planes.diagonal[warp][column % kBlock + 1][i % kBlock] = column + 1 < i ? a_y : 0.0F;
      } else {
        std::uint32_t rest;
        *reinterpret_cast<std::uint32_t*>(&planes.below_high[i - kBlock][column]) = split(a_x, a_y, rest);
        *reinterpret_cast<std::uint32_t*>(&planes.below_low[i - kBlock][column]) = rest;
      }
      store_scores(i, column, score_x, score_y);
    }
  }
}

// T_jj of the warp's own block: a lane a column, twice; the second one stores the low halves. Each is also handed to
// store(row, column, half, is_high).
template <typename Store>
__device__ __forceinline__ void invert_diagonal(Planes& planes, int warp, const Store& store) {
  const int column = static_cast<int>(threadIdx.x) % kBlock;
  float x[kBlock];
#pragma unroll
  for (int i = 0; i < kBlock; ++i) x[i] = i == column ? 1.0F : 0.0F;
#pragma unroll
  for (int k = 0; k < kBlock - 1; ++k) {
#pragma unroll
    for (int piece = (k + 1) / 4; piece < kBlock / 4; ++piece) {
      const float4 a = *reinterpret_cast<const float4*>(&planes.diagonal[warp][k][4 * piece]);
      x[4 * piece] = __fmaf_rn(a.x, x[k], x[4 * piece]);  // zeros where the row is not past k
      x[4 * piece + 1] = __fmaf_rn(a.y, x[k], x[4 * piece + 1]);
      x[4 * piece + 2] = __fmaf_rn(a.z, x[k], x[4 * piece + 2]);
      x[4 * piece + 3] = __fmaf_rn(a.w, x[k], x[4 * piece + 3]);
    }
  }
  const bool stores_high = threadIdx.x % 32 < kBlock;
  auto& plane = stores_high ? planes.inverse_high[warp] : planes.inverse_low[warp];
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    const __half high = __float2half_rn(x[i]);
    const __half half = stores_high ? high : __float2half_rn(x[i] - __half2float(high));
    plane[i][column] = half;
    store(kBlock * warp + i, kBlock * warp + column, half, stores_high);
  }
}

// The blocks of T left of the warp's own, from right to left; two neighbours at a time are handed to
// store(row, column, high halves, low halves).
template <typename Store>
__device__ __forceinline__ void invert_below(const Planes& planes, int warp, const Store& store) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, row = lane % 8;
  const int block_row = matrix % 2 * 8 + row, block_column = matrix / 2 * 8;
  const auto load_b = [&](const __half* high, const __half* low, Split& b) {
    load_matrices_transposed(b.high, shared_address(high));
    load_matrices_transposed(b.low, shared_address(low));
  };
  Split t[kWarps];  // t[d] is T_{warp, warp - d}
  load_matrices(t[0].high, shared_address(&planes.inverse_high[warp][block_row][block_column]));
  load_matrices(t[0].low, shared_address(&planes.inverse_low[warp][block_row][block_column]));
#pragma unroll
  for (int distance = 1; distance < kWarps; ++distance) {
    const int j = warp - distance;
    if (j < 0) break;
    float sum[2][4] = {}, block[2][4] = {};
    Split b;
#pragma unroll
    for (int d = 0; d < distance; ++d) {
      const int i = kBlock * (warp - d - 1) + block_row, column = kBlock * j + block_column;
      load_b(&planes.below_high[i][column], &planes.below_low[i][column], b);
      multiply(sum, t[d], b);
    }
    load_b(&planes.inverse_high[j][block_row][block_column], &planes.inverse_low[j][block_row][block_column], b);
    multiply(block, as_operand(sum), b);
    t[distance] = as_operand(block);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        store(kBlock * warp + lane / 4 + 8 * half, kBlock * j + 8 * n + lane % 4 * 2, t[distance].high[2 * n + half],
              t[distance].low[2 * n + half]);
      }
    }
  }
}

}  // namespace clef::cuda
