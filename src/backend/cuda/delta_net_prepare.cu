// DeltaNet's first pass: for each chunk of each value head what does not depend on the state, a ChunkRecord.
// Arithmetic: products of f16 in f32. Decays from sums of g in double, kept as two floats so that a small decay is not
//             lost behind a large one: D_ij = exp((high_i - high_j) + (low_i - low_j)). The triangular inverse by
//             16 x 16 blocks: those on the diagonal by substitution in f32, those below, T_ij = -(sum over j < k <= i
//             of T_ik A_kj) T_jj, with operands split in two halves (22 bits) and sums in f32.
// Schedule:   a block of four warps a chunk and value head, each warp sixteen of its rows.
// Bound:      latency; 2 * 32 KB read and 17 KB written a chunk and head.
#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_common.cuh"
#include "backend/cuda/delta_net_tile.cuh"

namespace clef::cuda {
namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kBlock = 16;        // rows of a warp, and of a block of the triangular inverse
constexpr int kPlaneStride = 72;  // halves; 144 bytes, so that eight rows lie in different banks
constexpr int kBlockStride = 24;  // halves; 48 bytes, likewise
constexpr int kDiagonalStride = 20;

// g below this is 0 after exp, as is every product with it; the bound keeps its sums exact enough.
constexpr float kLeastLogDecay = -128.0F;
// Sums of 64 such g are at least -2^13: multiples of 2^-10 have 23 bits.
constexpr double kHighUnit = 1.0 / 1024;

struct Tiles {
  unsigned char k[kTileBytes], q[kTileBytes];
};
// Takes the place of the tiles once their products are in registers.
struct Planes {
  __half below_high[kChunk][kPlaneStride], below_low[kChunk][kPlaneStride];  // -A, blocks below the diagonal
  __half inverse_high[kWarps][kBlock][kBlockStride], inverse_low[kWarps][kBlock][kBlockStride];  // T_jj
  float diagonal[kWarps][kBlock][kDiagonalStride];                                               // A_jj
};
struct Shared {
  union {
    Tiles tiles;
    Planes planes;
  };
  ChunkRecord record;
  float gamma_high[kChunk], gamma_low[kChunk];
};

// A block's operand as two halves: high + low has 22 bits.
struct Split {
  std::uint32_t high[4], low[4];
};

__device__ std::uint32_t split(float x, float y, std::uint32_t& low) {
  const std::uint32_t high = pack(x, y);
  const float2 rounded = unpack(high);
  low = pack(x - rounded.x, y - rounded.y);
  return high;
}

// d += a * b, b [16, 16]; the product of the low parts is below f32.
__device__ void multiply(float (&d)[2][4], const Split& a, const Split& b) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    mma(d[n], a.low, b.high[2 * n], b.high[2 * n + 1]);
    mma(d[n], a.high, b.low[2 * n], b.low[2 * n + 1]);
    mma(d[n], a.high, b.high[2 * n], b.high[2 * n + 1]);
  }
}

__device__ Split as_operand(const float (&d)[2][4]) {
  Split a;
  a.high[0] = split(d[0][0], d[0][1], a.low[0]);
  a.high[1] = split(d[0][2], d[0][3], a.low[1]);
  a.high[2] = split(d[1][0], d[1][1], a.low[2]);
  a.high[3] = split(d[1][2], d[1][3], a.low[3]);
  return a;
}

// Log-decays, their sums and beta of the chunk, by one warp, two tokens a lane.
__device__ void gates(const DeltaNetArgs& args, Shared& s, int first, int tokens, int head, int sequence) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float rate = args.neg_exp_a_log[head], bias = args.dt_bias[head];
  double g[2];
  float beta[2];
  bool invalid = false;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int token = 2 * lane + i;
    g[i] = 0.0;
    beta[i] = 0.0F;
    if (token >= tokens) continue;
    const std::int64_t place = (first + token) * args.ba_stride + head;
    const float log_decay = rate * softplus(args.a[place] + bias);
    beta[i] = sigmoid(args.b[place]);
    if (isnan(log_decay) || isnan(beta[i])) {
      invalid = true;
      beta[i] = 0.0F;
    } else {
      g[i] = fmaxf(log_decay, kLeastLogDecay);
    }
  }
  if (invalid && args.overflow != nullptr) args.overflow[sequence] = 1;
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
    const double high = rint(gamma[i] / kHighUnit) * kHighUnit;
    s.gamma_high[token] = static_cast<float>(high);
    s.gamma_low[token] = static_cast<float>(gamma[i] - high);
    const float decay = expf(static_cast<float>(gamma[i]));
    s.record.beta[token] = beta[i];
    s.record.minus_beta_decay[token] = -(beta[i] * decay);
    s.record.query_decay[token] = scale * decay;
    s.record.decay_to_last[token] = expf(static_cast<float>(last - gamma[i]));
  }
  s.record.chunk_decay[lane] = expf(static_cast<float>(last));
}

// The rows of k and q, zeros past the sequence's end.
__device__ void load_tiles(const DeltaNetArgs& args, Shared& s, int first, int tokens, int key_head) {
  constexpr int kRowsAtOnce = kThreads / 16;
  const int piece = static_cast<int>(threadIdx.x) % 16, row_in_group = static_cast<int>(threadIdx.x) / 16;
  const std::uint32_t k = shared_address(s.tiles.k), q = shared_address(s.tiles.q);
#pragma unroll
  for (int group = 0; group < kChunk; group += kRowsAtOnce) {
    const int row = group + row_in_group;
    const bool present = row < tokens;
    const std::int64_t place =
        (std::int64_t{first + (present ? row : 0)} * args.key_heads + key_head) * kDeltaNetHeadDim + piece * 8;
    copy_piece(k + tile_offset(row, piece), args.k + place, present);
    copy_piece(q + tile_offset(row, piece), args.q + place, present);
  }
  copy_commit();
}

// kk [16, 64] = the warp's rows of K K^T, qk of Q K^T, up to the diagonal; eight columns an index.
__device__ void products(const Shared& s, int warp, float (&kk)[8][4], float (&qk)[8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, row = lane % 8;
  const std::uint32_t k = shared_address(s.tiles.k), q = shared_address(s.tiles.q);
  const int a_row = kBlock * warp + matrix % 2 * 8 + row;
#pragma unroll
  for (int step = 0; step < kDeltaNetHeadDim / 16; ++step) {
    std::uint32_t a_k[4], a_q[4];
    load_matrices(k + tile_offset(a_row, 2 * step + matrix / 2), a_k);
    load_matrices(q + tile_offset(a_row, 2 * step + matrix / 2), a_q);
#pragma unroll
    for (int block = 0; block < kWarps; ++block) {
      if (block > warp) continue;
      std::uint32_t b[4];
      load_matrices(k + tile_offset(kBlock * block + matrix / 2 * 8 + row, 2 * step + matrix % 2), b);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        mma(kk[2 * block + n], a_k, b[2 * n], b[2 * n + 1]);
        mma(qk[2 * block + n], a_q, b[2 * n], b[2 * n + 1]);
      }
    }
  }
}

__device__ void store_pair(__half* panel, int row, int column, std::uint32_t pair) {
  *reinterpret_cast<std::uint32_t*>(reinterpret_cast<unsigned char*>(panel) + panel_offset(row, column / 8) +
                                    column % 8 * 2) = pair;
}

// Scores into the record, A into the planes.
__device__ void apply_decays(Shared& s, int warp, const float (&kk)[8][4], const float (&qk)[8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float scale = 1.0F / sqrtf(static_cast<float>(kDeltaNetHeadDim));
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = kBlock * warp + lane / 4 + 8 * half;
    const float high = s.gamma_high[i], low = s.gamma_low[i], beta = s.record.beta[i];
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      const int column = 8 * tile + lane % 4 * 2;
      if (tile / 2 > warp) {
        store_pair(s.record.scores, i, column, 0);
        store_pair(s.record.inverse, i, column, 0);
        continue;
      }
      float score[2], a[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int j = column + e;
        const float decay = expf((high - s.gamma_high[j]) + (low - s.gamma_low[j]));
        score[e] = j <= i ? qk[tile][2 * half + e] * scale * decay : 0.0F;
        a[e] = j < i ? beta * (kk[tile][2 * half + e] * decay) : 0.0F;
      }
      store_pair(s.record.scores, i, column, pack(score[0], score[1]));
      if (tile / 2 == warp) {
        s.planes.diagonal[warp][i % kBlock][column % kBlock] = a[0];
        s.planes.diagonal[warp][i % kBlock][column % kBlock + 1] = a[1];
      } else {
        std::uint32_t rest;
        *reinterpret_cast<std::uint32_t*>(&s.planes.below_high[i][column]) = split(-a[0], -a[1], rest);
        *reinterpret_cast<std::uint32_t*>(&s.planes.below_low[i][column]) = rest;
      }
    }
  }
}

// T_jj of the warp's own block: a lane a column.
__device__ void invert_diagonal(Shared& s, int warp) {
  const int column = static_cast<int>(threadIdx.x) % 32;
  if (column >= kBlock) return;
  float x[kBlock];
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    float sum = i == column ? 1.0F : 0.0F;
#pragma unroll
    for (int k = 0; k < i; ++k) sum = __fmaf_rn(-s.planes.diagonal[warp][i][k], x[k], sum);
    x[i] = sum;
    const __half high = __float2half_rn(sum);
    s.planes.inverse_high[warp][i][column] = high;
    s.planes.inverse_low[warp][i][column] = __float2half_rn(sum - __half2float(high));
    const int row = kBlock * warp + i, place = kBlock * warp + column;
    reinterpret_cast<__half*>(reinterpret_cast<unsigned char*>(s.record.inverse) +
                              panel_offset(row, place / 8))[place % 8] = high;
  }
}

// The blocks of T left of the warp's own, from right to left.
__device__ void invert_below(Shared& s, int warp) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, row = lane % 8;
  const int block_row = matrix % 2 * 8 + row, block_column = matrix / 2 * 8;
  const auto load_b = [&](const __half* high, const __half* low, Split& b) {
    load_matrices_transposed(shared_address(high), b.high);
    load_matrices_transposed(shared_address(low), b.low);
  };
  Split t[kWarps];  // t[d] is T_{warp, warp - d}
  load_matrices(shared_address(&s.planes.inverse_high[warp][block_row][block_column]), t[0].high);
  load_matrices(shared_address(&s.planes.inverse_low[warp][block_row][block_column]), t[0].low);
#pragma unroll
  for (int distance = 1; distance < kWarps; ++distance) {
    const int j = warp - distance;
    if (j < 0) break;
    float sum[2][4] = {}, block[2][4] = {};
    Split b;
#pragma unroll
    for (int d = 0; d < distance; ++d) {
      const int i = kBlock * (warp - d) + block_row, column = kBlock * j + block_column;
      load_b(&s.planes.below_high[i][column], &s.planes.below_low[i][column], b);
      multiply(sum, t[d], b);
    }
    load_b(&s.planes.inverse_high[j][block_row][block_column], &s.planes.inverse_low[j][block_row][block_column], b);
    multiply(block, as_operand(sum), b);
    t[distance] = as_operand(block);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        store_pair(s.record.inverse, kBlock * warp + lane / 4 + 8 * half, kBlock * j + 8 * n + lane % 4 * 2,
                   pack(block[n][2 * half], block[n][2 * half + 1]));
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads, 4) delta_net_prepare_kernel(const DeltaNetArgs args) {
  extern __shared__ __align__(128) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const int head = static_cast<int>(blockIdx.x), slot = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int low = 0, high = args.sequences;  // the last sequence whose first slot is not past ours
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (first_slot(__ldg(args.cu_seqlens + middle), middle) <= slot) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const int sequence = low, start = __ldg(args.cu_seqlens + sequence);
  const int first = start + (slot - first_slot(start, sequence)) * kChunk;
  const int tokens = min(kChunk, __ldg(args.cu_seqlens + sequence + 1) - first);
  if (tokens <= 0) return;  // an empty slot

  load_tiles(args, s, first, tokens, head / (args.value_heads / args.key_heads));
  if (warp == 0) gates(args, s, first, tokens, head, sequence);
  copy_wait<0>();
  __syncthreads();
  float kk[8][4] = {}, qk[8][4] = {};
  products(s, warp, kk, qk);
  __syncthreads();  // the planes overwrite the tiles
  apply_decays(s, warp, kk, qk);
  __syncwarp();
  invert_diagonal(s, warp);
  __syncthreads();
  invert_below(s, warp);
  fence_shared_for_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    auto* record = static_cast<ChunkRecord*>(args.workspace) + std::int64_t{slot} * args.value_heads + head;
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(record),
                 "r"(shared_address(&s.record)), "n"(sizeof(ChunkRecord))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

}  // namespace

cudaError_t launch_delta_net_prepare(const DeltaNetArgs& args, cudaStream_t stream) {
  const cudaError_t status = cudaFuncSetAttribute(delta_net_prepare_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(sizeof(Shared)));
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(args.value_heads),
                  static_cast<unsigned>(slot_count(args.tokens, args.sequences)));
  delta_net_prepare_kernel<<<grid, kThreads, sizeof(Shared), stream>>>(args);
  return cudaGetLastError();
}

}  // namespace clef::cuda
