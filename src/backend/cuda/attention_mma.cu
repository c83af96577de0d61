// Attention with the warp's own matrix instructions (mma.sync), for every card from sm_80 on.
// Arithmetic: a row takes its keys in blocks of kKeys from its sequence's start. Per block: scores as FP32 sums of FP16
//             products, 16 features at a time, ascending; the running maximum; p = 2^(score*c - max*c), c = log2(e) /
//             sqrt(head_dim); the row's sum of p, one part for each lane of four, joined at the end; p rounded to FP16
//             and multiplied with the values, 16 keys at a time, ascending. Keys that are masked or missing enter as
//             p = 0 and, past the sequence's end, as zero rows, so a block that holds none for a row changes no bit.
// Schedule:   one block of 4 warps has 64 rows of one head; the rows with the most keys start first.
// Bound:      shared memory's bandwidth: each warp reads every key and value for its 16 rows.
#include <cuda_fp16.h>

#include <cmath>

#include "backend/cuda/attention.h"
#include "backend/cuda/attention_tile.cuh"
#include "backend/cuda/tile.cuh"

namespace clef::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kRows = 16 * kWarps;  // 16 rows is what mma.sync multiplies

struct Params {
  const __half *q, *k, *v;
  std::int64_t q_stride, kv_stride;
  const __half* gate;  // null: none
  std::int64_t gate_stride, gate_head_stride;
  __half* y;
  std::int64_t y_stride;
  const int* cu;
  int sequences, heads, group, head_dim, prefix;
  float scale;  // log2(e) / sqrt(head_dim)
  int* overflow;
};

// Tiles of rows in shared memory. A row is followed by 16 unused bytes, so that its length is an odd number of 16-byte
// words and the eight rows of a matrix fragment lie in different banks.
template <int kDim>
struct Layout {
  static constexpr int kPitch = kDim + 8;
  static __device__ std::uint32_t at(std::uint32_t base, int row, int column) {
    return base + static_cast<std::uint32_t>((row * kPitch + column) * 2);
  }
};

// Starts the copy of rows [first, first + kCount) of one head; rows before `begin`, rows from `length` on and columns
// from `dim` on are 0.
template <int kDim, int kCount>
__device__ void load_rows(std::uint32_t tile, const __half* source, std::int64_t stride, int first, int begin,
                          int length, int dim) {
  constexpr int kChunks = kDim / 8;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kCount * kChunks; i += kThreads) {
    const int row = i / kChunks, column = i % kChunks * 8;
    const bool inside = first + row >= begin && first + row < length && column < dim;
    const __half* from = inside ? source + (first + row) * stride + column : source;
    copy_async_16(Layout<kDim>::at(tile, row, column), from, inside);
  }
}

__device__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, 1));
  return fmaxf(x, __shfl_xor_sync(kFullWarp, x, 2));
}

__device__ float quad_sum(float x) {
  x = __fadd_rn(x, __shfl_xor_sync(kFullWarp, x, 1));
  return __fadd_rn(x, __shfl_xor_sync(kFullWarp, x, 2));
}

// kDim is head_dim rounded up to what a kernel exists for; the columns between are zeros.
template <int kDim, int kKeys, bool kCausal>
__global__ void __launch_bounds__(kThreads) attention_mma_kernel(const Params params) {
  using Tile = Layout<kDim>;
  extern __shared__ __align__(16) std::uint8_t shared[];
  const std::uint32_t q_tile = shared_address(shared);
  const std::uint32_t k_tile = q_tile + kRows * Tile::kPitch * 2;
  const std::uint32_t v_tile = k_tile + kKeys * Tile::kPitch * 2;

  const int slots = static_cast<int>(gridDim.x) / params.heads;
  const int head = static_cast<int>(blockIdx.x) % params.heads;
  const int slot = slots - 1 - static_cast<int>(blockIdx.x) / params.heads;
  const SequenceTile tile = find_tile(params.cu, params.sequences, kRows, slot);
  if (tile.first >= tile.length || tile.first + kRows <= params.prefix) return;

  const std::int64_t head_column = static_cast<std::int64_t>(head) * params.head_dim;
  const std::int64_t kv_column = static_cast<std::int64_t>(head / params.group) * params.head_dim;
  const std::int64_t query_start = tile.start_without(params.prefix);
  const __half* q = params.q + query_start * params.q_stride + head_column;
  const __half* k = params.k + tile.start * params.kv_stride + kv_column;
  const __half* v = params.v + tile.start * params.kv_stride + kv_column;

  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp_row = static_cast<int>(threadIdx.x) / kWarpSize * 16;
  const int first_token = tile.first + warp_row + lane / 4;  // this lane's rows are that and the eighth after it

  const int last = min(tile.first + kRows, tile.length);
  const int blocks = ((kCausal ? last : tile.length) + kKeys - 1) / kKeys;

  load_rows<kDim, kRows>(q_tile, q, params.q_stride, tile.first, params.prefix, tile.length, params.head_dim);
  load_rows<kDim, kKeys>(k_tile, k, params.kv_stride, 0, 0, tile.length, params.head_dim);
  copy_async_commit();

  float out[kDim / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY};  // of a row's scores so far
  float total[2] = {0, 0};                    // this lane's part of the row's sum of p

  for (int block = 0; block < blocks; ++block) {
    const int first_key = block * kKeys;
    copy_async_wait<0>();
    __syncthreads();  // this block's keys are here, and nobody reads the last block's values any more
    load_rows<kDim, kKeys>(v_tile, v, params.kv_stride, first_key, 0, tile.length, params.head_dim);
    copy_async_commit();

    float score[kKeys / 8][4] = {};
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      std::uint32_t a[4];
      load_matrices(a, Tile::at(q_tile, warp_row + lane % 16, d + lane / 16 * 8));
#pragma unroll
      for (int n = 0; n < kKeys; n += 16) {
        std::uint32_t b[4];
        load_matrices(b, Tile::at(k_tile, n + lane % 8 + lane / 16 * 8, d + lane / 8 % 2 * 8));
        multiply_add(score[n / 8], a, b[0], b[1]);
        multiply_add(score[n / 8 + 1], a, b[2], b[3]);
      }
    }

    // A select, not a sum: the score of a missing key may be NaN.
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first_key + n * 8 + lane % 4 * 2 + i % 2;
        const int end = kCausal ? first_token + i / 2 * 8 + 1 : tile.length;
        score[n][i] = key < end ? score[n][i] : -INFINITY;
      }
    }

    float rescale[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float block_max = -INFINITY;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        block_max = fmaxf(block_max, fmaxf(score[n][2 * half], score[n][2 * half + 1]));
      }
      const float now = fmaxf(largest[half], quad_max(block_max));
      rescale[half] = exp2_approximate(__fmul_rn(__fsub_rn(largest[half], now), params.scale));
      largest[half] = now;
      total[half] = __fmul_rn(total[half], rescale[half]);
      const float shift = -__fmul_rn(now, params.scale);
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          score[n][i] = exp2_approximate(__fmaf_rn(score[n][i], params.scale, shift));
          total[half] = __fadd_rn(total[half], score[n][i]);
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[n][i] = __fmul_rn(out[n][i], rescale[i / 2]);
    }

    copy_async_wait<0>();
    __syncthreads();  // this block's values are here, and nobody reads its keys any more
    if (block + 1 < blocks) {
      load_rows<kDim, kKeys>(k_tile, k, params.kv_stride, first_key + kKeys, 0, tile.length, params.head_dim);
      copy_async_commit();
    }

#pragma unroll
    for (int key = 0; key < kKeys; key += 16) {
      // What a lane holds of the scores is what it must hold of the left operand.
      const float(&left)[4] = score[key / 8];
      const float(&right)[4] = score[key / 8 + 1];
      const std::uint32_t a[4] = {pack_halves(left[0], left[1]), pack_halves(left[2], left[3]),
                                  pack_halves(right[0], right[1]), pack_halves(right[2], right[3])};
#pragma unroll
      for (int n = 0; n < kDim; n += 16) {
        std::uint32_t b[4];
        load_matrices_transposed(b, Tile::at(v_tile, key + lane % 16, n + lane / 16 * 8));
        multiply_add(out[n / 8], a, b[0], b[1]);
        multiply_add(out[n / 8 + 1], a, b[2], b[3]);
      }
    }
  }

  bool bad = false;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float inverse = __frcp_rn(quad_sum(total[half]));
    const int token = first_token + half * 8;
    if (token < params.prefix || token >= tile.length) continue;
    const std::int64_t row = query_start + token;
    __half* y = params.y + row * params.y_stride + head_column;
    const __half* gate =
        params.gate == nullptr ? nullptr : params.gate + row * params.gate_stride + head * params.gate_head_stride;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      const int column = n * 8 + lane % 4 * 2;
      if (column >= params.head_dim) continue;
      float2 value = {__fmul_rn(out[n][2 * half], inverse), __fmul_rn(out[n][2 * half + 1], inverse)};
      if (gate != nullptr) {
        const float2 g = __half22float2(*reinterpret_cast<const __half2*>(gate + column));
        value = {__fmul_rn(value.x, approximate_sigmoid(g.x)), __fmul_rn(value.y, approximate_sigmoid(g.y))};
      }
      *reinterpret_cast<__half2*>(y + column) = __floats2half2_rn(saturate(value.x, bad), saturate(value.y, bad));
    }
  }
  if (bad && params.overflow != nullptr) params.overflow[tile.sequence] = 1;
}

template <int kDim, int kKeys, bool kCausal>
cudaError_t launch(const Params& params, int tokens, cudaStream_t stream) {
  const auto kernel = attention_mma_kernel<kDim, kKeys, kCausal>;
  constexpr int kSharedBytes = (kRows + 2 * kKeys) * Layout<kDim>::kPitch * 2;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  const std::int64_t blocks = tile_slots(tokens, params.sequences, kRows) * params.heads;
  kernel<<<static_cast<unsigned>(blocks), kThreads, kSharedBytes, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_attention_mma(const AttentionArgs& args, cudaStream_t stream) {
  if (!valid(args)) return cudaErrorInvalidValue;
  if (args.sequences == 0 || args.tokens == 0) return cudaSuccess;
  Params params{};
  params.q = args.q;
  params.k = args.k;
  params.v = args.v;
  params.q_stride = args.q_stride;
  params.kv_stride = args.kv_stride;
  params.gate = args.gate;
  params.gate_stride = args.gate_stride;
  params.gate_head_stride = args.gate_head_stride;
  params.y = args.y;
  params.y_stride = args.y_stride;
  params.cu = args.cu_seqlens;
  params.sequences = args.sequences;
  params.heads = args.q_heads;
  params.group = args.q_heads / args.kv_heads;
  params.head_dim = kAttentionHeadDim;
  params.prefix = args.prefix_tokens;
  params.scale = kLog2E / 16.0F;
  params.overflow = args.overflow;
  // 32 keys: with 64 rows of queries they leave room for two blocks on a multiprocessor of every such card.
  return launch<kAttentionHeadDim, 32, true>(params, args.tokens, stream);
}

cudaError_t launch_segment_attention_mma(const SegmentAttentionArgs& args, cudaStream_t stream) {
  if (!valid(args)) return cudaErrorInvalidValue;
  if (args.segments == 0 || args.tokens == 0) return cudaSuccess;
  Params params{};
  params.q = args.q;
  params.k = args.k;
  params.v = args.v;
  params.q_stride = args.q_stride;
  params.kv_stride = args.kv_stride;
  params.y = args.y;
  params.y_stride = args.y_stride;
  params.cu = args.cu_segments;
  params.sequences = args.segments;
  params.heads = args.heads;
  params.group = 1;
  params.head_dim = args.head_dim;
  params.scale = kLog2E / std::sqrt(static_cast<float>(args.head_dim));
  params.overflow = args.overflow;
  if (args.head_dim <= 32) return launch<32, 64, false>(params, args.tokens, stream);
  if (args.head_dim <= 64) return launch<64, 64, false>(params, args.tokens, stream);
  if (args.head_dim <= 80) return launch<80, 64, false>(params, args.tokens, stream);
  return launch<128, 64, false>(params, args.tokens, stream);
}

}  // namespace clef::cuda
