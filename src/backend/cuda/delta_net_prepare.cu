// DeltaNet's first pass: for each chunk of each value head what does not depend on the state, a ChunkRecord.
// Arithmetic: products of f16 in f32. Decays from sums of g / ln 2 in double, kept as two floats so that a small decay
//             is not lost behind a large one: D_ij = 2^((high_i - high_j) + (low_i - low_j)). The triangular inverse by
//             16 x 16 blocks: those on the diagonal by substitution in f32, those below, T_ij = -(sum over j < k <= i
//             of T_ik A_kj) T_jj, with operands split in two halves (22 bits) and sums in f32.
// Schedule:   a block of four warps a chunk and value head, each warp sixteen of its rows.
// Bound:      latency; 32 KB read and 17 KB written a chunk and head.
#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_common.cuh"
#include "backend/cuda/delta_net_tile.cuh"
#include "backend/cuda/delta_net_wgmma.cuh"

namespace clef::cuda {
namespace {

constexpr int kWarps = 4, kThreads = 32 * kWarps;
constexpr int kBlock = 16;               // rows of a warp, and of a block of the triangular inverse
constexpr int kBelow = kChunk - kBlock;  // rows, and columns, that blocks below the diagonal take
constexpr int kPlaneStride = 56;         // halves; 112 bytes, so that eight rows lie in different banks
constexpr int kBlockStride = 24;         // halves; 48 bytes, likewise
constexpr int kDiagonalStride = 20;      // floats; 80 bytes: rows start at 16-byte pieces

// e^g below this is 0 in f32, as is every product with it; the bound keeps sums of g exact enough.
constexpr float kLeastLogDecay = -128.0F;
constexpr double kLog2EExact = 1.4426950408889634;
// Sums of 64 such g / ln 2 are above -2^14: multiples of 2^-9 have 23 bits.
constexpr double kHighUnit = 1.0 / 512;

struct Tiles {
  unsigned char k[kTileBytes], q[kTileBytes];
};
struct Planes {
  __half below_high[kBelow][kPlaneStride], below_low[kBelow][kPlaneStride];  // -A, from row kBlock on
  __half inverse_high[kWarps][kBlock][kBlockStride], inverse_low[kWarps][kBlock][kBlockStride];  // T_jj
  float diagonal[kWarps][kBlock][kDiagonalStride];  // -A_jj, transposed: [column][row]
};
struct Results {
  Planes planes;
  alignas(1024) ChunkRecord record;
};
// The planes and the record's matrices take the place of the tiles, once the tiles' products are in registers.
struct Shared {
  union {
    Tiles tiles;
    Results results;
  };
  float gamma_high[kChunk], gamma_low[kChunk];
};
static_assert(offsetof(Results, record) + offsetof(ChunkRecord, value_gates) >= sizeof(Tiles));

// A block's operand as two halves: high + low has 22 bits.
struct Split {
  std::uint32_t high[4], low[4];
};

__device__ std::uint32_t split(float x, float y, std::uint32_t& low) {
  const std::uint32_t high = pack_halves(x, y);
  const float2 rounded = unpack_halves(high);
  low = pack_halves(x - rounded.x, y - rounded.y);
  return high;
}

// d += a * b, b [16, 16]; the product of the low parts is below f32.
__device__ void multiply(float (&d)[2][4], const Split& a, const Split& b) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    multiply_add(d[n], a.low, b.high[2 * n], b.high[2 * n + 1]);
    multiply_add(d[n], a.high, b.low[2 * n], b.low[2 * n + 1]);
    multiply_add(d[n], a.high, b.high[2 * n], b.high[2 * n + 1]);
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

// What a lane's two tokens bring, loaded before it is needed.
struct GateInputs {
  float a[2], b[2], rate, bias;
};
__device__ GateInputs load_gate_inputs(const DeltaNetArgs& args, int first, int tokens, int head) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  GateInputs in;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::int64_t place = (first + min(2 * lane + i, tokens - 1)) * args.ba_stride + head;
    in.a[i] = __ldg(args.a + place);
    in.b[i] = __ldg(args.b + place);
  }
  in.rate = __ldg(args.neg_exp_a_log + head);
  in.bias = __ldg(args.dt_bias + head);
  return in;
}

// Log-decays, their sums and beta of the chunk, by one warp, two tokens a lane. What is NaN becomes a beta of
// invalid_beta; false if a lane meets any.
__device__ bool gates(const GateInputs& in, Shared& s, int tokens, float invalid_beta) {
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
    s.gamma_high[token] = static_cast<float>(high);
    s.gamma_low[token] = static_cast<float>(bits - high);
    const float decay = expf(static_cast<float>(gamma[i]));
    s.results.record.value_gates[lane][i] = beta[i];
    s.results.record.value_gates[lane][2 + i] = -(beta[i] * decay);
    s.results.record.query_decay[token] = scale * decay;
    s.results.record.decay_to_last[token] = expf(static_cast<float>(last - gamma[i]));
  }
  s.results.record.chunk_decay[lane] = expf(static_cast<float>(last));
  return valid;
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
    copy_async_16(k + tile_offset(row, piece), args.k + place, present);
    copy_async_16(q + tile_offset(row, piece), args.q + place, present);
  }
  copy_async_commit();
}

// Starts kk = K K^T and qk = Q K^T.
__device__ __forceinline__ void start_products(const Shared& s, float (&kk)[32], float (&qk)[32]) {
  const std::uint32_t k = shared_address(s.tiles.k), q = shared_address(s.tiles.q);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kDeltaNetHeadDim / 16; ++step) {
    const auto at = static_cast<std::uint32_t>(step / 4 * kPanelBytes + step % 4 * 32);
    wgmma_n64_shared(kk, wgmma_panel(k + at, 16), wgmma_panel(k + at, 16), step > 0);
    wgmma_n64_shared(qk, wgmma_panel(q + at, 16), wgmma_panel(k + at, 16), step > 0);
  }
  wgmma_commit();
}

__device__ void store_pair(__half* panel, int row, int column, std::uint32_t pair) {
  *reinterpret_cast<std::uint32_t*>(reinterpret_cast<unsigned char*>(panel) + panel_offset(row, column / 8) +
                                    column % 8 * 2) = pair;
}

// Scores into the record, A into the planes.
__device__ void apply_decays(Shared& s, int warp, const float (&kk)[32], const float (&qk)[32]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float scale = 1.0F / sqrtf(static_cast<float>(kDeltaNetHeadDim));
  const int first_row = kBlock * warp + lane / 4;
  float high[2], low[2], beta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    high[half] = s.gamma_high[first_row + 8 * half];
    low[half] = s.gamma_low[first_row + 8 * half];
    beta[half] = s.results.record.value_gates[(first_row + 8 * half) / 2][first_row % 2];
  }
#pragma unroll
  for (int tile = 0; tile < 8; ++tile) {
    const int column = 8 * tile + lane % 4 * 2;
    const float2 high_j = *reinterpret_cast<const float2*>(&s.gamma_high[column]);
    const float2 low_j = *reinterpret_cast<const float2*>(&s.gamma_low[column]);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = first_row + 8 * half, at = 4 * tile + 2 * half;
      if (tile / 2 > warp) {
        store_pair(s.results.record.scores, i, column, 0);
        store_pair(s.results.record.inverse, i, column, 0);
        continue;
      }
      const float decay_x = exp2_approximate((high[half] - high_j.x) + (low[half] - low_j.x));
      const float decay_y = exp2_approximate((high[half] - high_j.y) + (low[half] - low_j.y));
      float score_x = qk[at] * scale * decay_x, score_y = qk[at + 1] * scale * decay_y;
      float a_x = -beta[half] * (kk[at] * decay_x), a_y = -beta[half] * (kk[at + 1] * decay_y);
      if (tile / 2 == warp) {  // above the diagonal the decays grow, to infinity
        score_x = column <= i ? score_x : 0.0F;
        score_y = column + 1 <= i ? score_y : 0.0F;
        s.results.planes.diagonal[warp][column % kBlock][i % kBlock] = column < i ? a_x : 0.0F;
        s.results.planes.diagonal[warp][column % kBlock + 1][i % kBlock] = column + 1 < i ? a_y : 0.0F;
      } else {
        std::uint32_t rest;
        *reinterpret_cast<std::uint32_t*>(&s.results.planes.below_high[i - kBlock][column]) = split(a_x, a_y, rest);
        *reinterpret_cast<std::uint32_t*>(&s.results.planes.below_low[i - kBlock][column]) = rest;
      }
      store_pair(s.results.record.scores, i, column, pack_halves(score_x, score_y));
    }
  }
}

// T_jj of the warp's own block: a lane a column, twice; the second one stores the low halves.
__device__ void invert_diagonal(Shared& s, int warp) {
  const int column = static_cast<int>(threadIdx.x) % kBlock;
  float x[kBlock];
#pragma unroll
  for (int i = 0; i < kBlock; ++i) x[i] = i == column ? 1.0F : 0.0F;
#pragma unroll
  for (int k = 0; k < kBlock - 1; ++k) {
#pragma unroll
    for (int piece = (k + 1) / 4; piece < kBlock / 4; ++piece) {
      const float4 a = *reinterpret_cast<const float4*>(&s.results.planes.diagonal[warp][k][4 * piece]);
      x[4 * piece] = __fmaf_rn(a.x, x[k], x[4 * piece]);  // zeros where the row is not past k
      x[4 * piece + 1] = __fmaf_rn(a.y, x[k], x[4 * piece + 1]);
      x[4 * piece + 2] = __fmaf_rn(a.z, x[k], x[4 * piece + 2]);
      x[4 * piece + 3] = __fmaf_rn(a.w, x[k], x[4 * piece + 3]);
    }
  }
  const bool stores_high = threadIdx.x % 32 < kBlock;
  auto& plane = stores_high ? s.results.planes.inverse_high[warp] : s.results.planes.inverse_low[warp];
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    const __half high = __float2half_rn(x[i]);
    plane[i][column] = stores_high ? high : __float2half_rn(x[i] - __half2float(high));
    if (!stores_high) continue;
    const int row = kBlock * warp + i, place = kBlock * warp + column;
    reinterpret_cast<__half*>(reinterpret_cast<unsigned char*>(s.results.record.inverse) +
                              panel_offset(row, place / 8))[place % 8] = high;
  }
}

// The blocks of T left of the warp's own, from right to left.
__device__ void invert_below(Shared& s, int warp) {
  const int lane = static_cast<int>(threadIdx.x) % 32, matrix = lane / 8, row = lane % 8;
  const int block_row = matrix % 2 * 8 + row, block_column = matrix / 2 * 8;
  const auto load_b = [&](const __half* high, const __half* low, Split& b) {
    load_matrices_transposed(b.high, shared_address(high));
    load_matrices_transposed(b.low, shared_address(low));
  };
  Split t[kWarps];  // t[d] is T_{warp, warp - d}
  load_matrices(t[0].high, shared_address(&s.results.planes.inverse_high[warp][block_row][block_column]));
  load_matrices(t[0].low, shared_address(&s.results.planes.inverse_low[warp][block_row][block_column]));
#pragma unroll
  for (int distance = 1; distance < kWarps; ++distance) {
    const int j = warp - distance;
    if (j < 0) break;
    float sum[2][4] = {}, block[2][4] = {};
    Split b;
#pragma unroll
    for (int d = 0; d < distance; ++d) {
      const int i = kBlock * (warp - d - 1) + block_row, column = kBlock * j + block_column;
      load_b(&s.results.planes.below_high[i][column], &s.results.planes.below_low[i][column], b);
      multiply(sum, t[d], b);
    }
    load_b(&s.results.planes.inverse_high[j][block_row][block_column],
           &s.results.planes.inverse_low[j][block_row][block_column], b);
    multiply(block, as_operand(sum), b);
    t[distance] = as_operand(block);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        store_pair(s.results.record.inverse, kBlock * warp + lane / 4 + 8 * half, kBlock * j + 8 * n + lane % 4 * 2,
                   pack_halves(block[n][2 * half], block[n][2 * half + 1]));
      }
    }
  }
}

__device__ void prepare(const DeltaNetArgs& args) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const int head = static_cast<int>(blockIdx.x), slot = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int sequence = last_not_past(
      slot, args.sequences, [&](int candidate) { return first_slot(__ldg(args.cu_seqlens + candidate), candidate); });
  const int start = __ldg(args.cu_seqlens + sequence);
  const int first = start + (slot - first_slot(start, sequence)) * kChunk;
  const int tokens = min(kChunk, __ldg(args.cu_seqlens + sequence + 1) - first);
  if (tokens <= 0) return;  // an empty slot

  load_tiles(args, s, first, tokens, head / (args.value_heads / args.key_heads));
  GateInputs gate_inputs;
  if (warp == 0) gate_inputs = load_gate_inputs(args, first, tokens, head);
  copy_async_wait<0>();
  fence_shared_for_async();
  __syncthreads();
  float kk[32], qk[32];
  start_products(s, kk, qk);
  if (warp == 0) {
    const bool flags = args.overflow != nullptr;
    if (!gates(gate_inputs, s, tokens, flags ? 0.0F : nanf("")) && flags) args.overflow[sequence] = 1;
  }
  wgmma_wait<0>();
  pin(kk);
  pin(qk);
  __syncthreads();  // the tiles are free
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
                 "r"(shared_address(&s.results.record)), "n"(sizeof(ChunkRecord))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");  // shared memory lasts until then
  }
}

__global__ void __launch_bounds__(kThreads, 5) delta_net_prepare_kernel(const __grid_constant__ DeltaNetArgs args) {
  if (kHasWarpgroupProducts) {
    prepare(args);
  } else {
    __trap();  // the launcher does not choose it
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
