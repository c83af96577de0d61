// DeltaNet's second pass with f32 activations: chunk after chunk of half a value head, with the state in registers.
// Arithmetic: with S the state [head_dim, value_dim] at the chunk's start and T, P and the decays of the chunk's
// record:
//               R = beta V - beta e^gamma (K S);   N = T R;   O = e^gamma (Q S) / sqrt(head_dim) + P N / sqrt(head_dim)
//               S = e^gamma_last S + K^T (decay_to_last N)
//             all in f32 but the operands of products: two halves (22 bits), low * high + high * low + high * high,
//             sixteen of depth at a time, ascending. The operands that a product meets in registers, S, R, N and the
//             decayed N, are first scaled: each value column of a chunk by a power of two of its own, so that its
//             largest number is near 2^12 whatever the range of v. What a chunk adds to the state is summed apart from
//             it, since the tensor cores' sums are cut, not rounded.
// Schedule:   a block half a value head of a sequence: a warpgroup holds 64 value columns, as rows of the transposed
//             state, so that each product's result is the next one's operand without leaving registers. Bulk copies
//             bring the next chunk's planes; v and y pass between registers and memory, whole sectors at a time.
// Bound:      the chain of a chunk's products and the splits between them, times the chunks.
#include "backend/cuda/delta_net_barrier.cuh"
#include "backend/cuda/delta_net_f32.h"
#include "backend/cuda/delta_net_f32_tile.cuh"
#include "backend/cuda/delta_net_split.cuh"
#include "backend/cuda/delta_net_wgmma.cuh"
#include "backend/cuda/launch.h"

namespace clef::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kValues = kDeltaNetHeadDim / 2;  // value columns of a block
constexpr int kBlocksPerHead = kDeltaNetHeadDim / kValues;
constexpr int kStages = 2;

struct alignas(1024) Stage {
  KeyPlanes keys;
  ChunkF32Record record;
};
struct Shared {
  Stage stages[kStages];
  std::uint64_t loaded[kStages];
};
static_assert(sizeof(Shared) <= 227 * 1024);

struct Tensors {  // what the first pass left
  const KeyPlanes* keys;
  const ChunkF32Record* records;
};
struct Place {
  int first, first_y, tokens, chunks, head, key_head, first_value;  // of this block; first_y: where y has token 0
  std::int64_t slot;                                                // of its first chunk
};

// Brings a chunk's planes; by one thread.
__device__ __forceinline__ void load(const DeltaNetF32Args& args, const Tensors& from, const Place& place, int chunk,
                                     Shared& s) {
  Stage& stage = s.stages[chunk % kStages];
  std::uint64_t& barrier = s.loaded[chunk % kStages];
  const std::int64_t slot = place.slot + chunk;
  barrier_arrive_expecting(barrier, sizeof(KeyPlanes) + sizeof(ChunkF32Record));
  bulk_load(&stage.keys, from.keys + slot * args.key_heads + place.key_head, sizeof(KeyPlanes), barrier);
  bulk_load(&stage.record, from.records + slot * args.value_heads + place.head, sizeof(ChunkF32Record), barrier);
}

// A lane's d[4t + 0, 1] lie in one row of the tile, d[4t + 2, 3] eight rows below. For both rows a power of two that
// brings the row's largest number to 2^12 or less than twice that, and its reciprocal; numbers that are not finite stay
// so.
struct RowScales {
  float scale[2], inverse[2];
};
template <int kSize>
__device__ __forceinline__ RowScales row_scales(const float (&d)[kSize]) {
  constexpr unsigned kBias = 127, kGoal = 12;
  RowScales scales;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float most = 0.0F;
#pragma unroll
    for (int i = 2 * row; i < kSize; i += 4) most = fmaxf(most, fmaxf(fabsf(d[i]), fabsf(d[i + 1])));
    most = fmaxf(most, __shfl_xor_sync(~0U, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0U, most, 2));
    const unsigned exponent = __float_as_uint(most) >> 23;
    const unsigned scale = min(2 * kBias + kGoal - exponent, 2 * kBias - 1);  // both ways of normal numbers
    scales.scale[row] = __uint_as_float(scale << 23);
    scales.inverse[row] = __uint_as_float((2 * kBias - scale) << 23);
  }
  return scales;
}

// Columns 16 * step to 16 * step + 15 of d, scaled, as the A operand of a product.
template <int kSize>
__device__ __forceinline__ void operand(const float (&d)[kSize], int step, const RowScales& scales, Split& a) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float scale = scales.scale[i % 2];
    a.high[i] = split(d[8 * step + 2 * i] * scale, d[8 * step + 2 * i + 1] * scale, a.low[i]);
  }
}

// d = A B, the small products first. B's columns are the rows of a tile [64, 16 * kSteps] of two planes in shared
// memory, kPanelBytes for each 64 of its depth.
template <int kSteps>
__device__ __forceinline__ void multiply_rows(float (&d)[32], const Split (&a)[kSteps], std::uint32_t high,
                                              std::uint32_t low) {
  const auto at = [](int step) { return static_cast<std::uint32_t>(step / 4 * kPanelBytes + step % 4 * 32); };
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    wgmma_n64<false>(d, a[step].low, wgmma_panel(high + at(step), 16), step > 0);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) wgmma_n64<false>(d, a[step].high, wgmma_panel(low + at(step), 16), true);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) wgmma_n64<false>(d, a[step].high, wgmma_panel(high + at(step), 16), true);
}
// The same with B's rows the rows of a panel [64, 64].
__device__ __forceinline__ void multiply_columns(float (&d)[32], const Split (&a)[4], std::uint32_t high,
                                                 std::uint32_t low) {
  const auto at = [](int step) { return static_cast<std::uint32_t>(16 * step * kRowBytes); };
#pragma unroll
  for (int step = 0; step < 4; ++step)
    wgmma_n64<true>(d, a[step].low, wgmma_panel(high + at(step), kPanelBytes), step > 0);
#pragma unroll
  for (int step = 0; step < 4; ++step) wgmma_n64<true>(d, a[step].high, wgmma_panel(low + at(step), kPanelBytes), true);
#pragma unroll
  for (int step = 0; step < 4; ++step)
    wgmma_n64<true>(d, a[step].high, wgmma_panel(high + at(step), kPanelBytes), true);
}

// Features 64 * kHalf to 64 * kHalf + 63 of the state take in what the chunk brings.
template <int kHalf>
__device__ __forceinline__ void update_state(float (&state)[64], float chunk_decay, const float (&change)[32],
                                             const RowScales& scales) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    float& x = state[32 * kHalf + i];
    x = __fmaf_rn(chunk_decay, x, change[i] * (scales.inverse[i / 2 % 2] * (1.0F / kPlaneScale)));
  }
}

// All matrices transposed: rows are value columns, this warp's sixteen among them; columns are key features or tokens.
__device__ __forceinline__ void compute(const DeltaNetF32Args& args, const Tensors& from, const Place& place,
                                        Shared& s) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int column = lane % 4 * 2;  // and the next, of each eight
  const int token_stride = args.value_heads * kDeltaNetHeadDim;
  std::int64_t value_at = std::int64_t{place.first + column} * token_stride + place.head * kDeltaNetHeadDim +
                          place.first_value + 16 * warp + lane / 4;
  float* const y_from_v = args.y + std::int64_t{place.first_y - place.first} * token_stride;
  const float scale = 1.0F / sqrtf(static_cast<float>(kDeltaNetHeadDim));
  float state[64] = {};
#pragma unroll 1
  for (int chunk = 0; chunk < place.chunks; ++chunk) {
    const Stage& stage = s.stages[chunk % kStages];
    const ChunkGates& gates = stage.record.gates;
    const int tokens = place.tokens - chunk * kChunk - column;  // from this lane's first
    const int known = args.prefix_tokens - chunk * kChunk - column;
    __syncthreads();  // the other stage is free
    if (threadIdx.x == 0 && chunk + 1 < place.chunks) load(args, from, place, chunk + 1, s);

    const RowScales state_scales = row_scales(state);
    Split state_operand[8];
#pragma unroll
    for (int step = 0; step < 8; ++step) operand(state, step, state_scales, state_operand[step]);
    barrier_wait(s.loaded[chunk % kStages], chunk / kStages);

    // x = (K S)^T, out = (Q S)^T
    float x[32], out[32];
    wgmma_fence();
    multiply_rows(x, state_operand, shared_address(stage.keys.k_high), shared_address(stage.keys.k_low));
    wgmma_commit();
    multiply_rows(out, state_operand, shared_address(stage.keys.q_high), shared_address(stage.keys.q_low));
    wgmma_commit();

    // R = beta V - beta e^gamma x
    float r[32];
    const float* v = args.v + value_at;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int token = i / 4 * 8 + i % 2;
      r[i] = token < tokens ? __ldg(v + token * token_stride + i / 2 % 2 * 8) : 0.0F;
    }
    wgmma_wait<1>();
    pin(x);
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      const float4 f = *reinterpret_cast<const float4*>(gates.value_gates[4 * tile + column / 2]);
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float inverse = state_scales.inverse[row] * (1.0F / kPlaneScale);
        const int i = 4 * tile + 2 * row;
        r[i] = __fmaf_rn(f.z, x[i] * inverse, f.x * r[i]);
        r[i + 1] = __fmaf_rn(f.w, x[i + 1] * inverse, f.y * r[i + 1]);
      }
    }

    // N = T R, into x
    const RowScales r_scales = row_scales(r);
    Split r_operand[4];
#pragma unroll
    for (int step = 0; step < 4; ++step) operand(r, step, r_scales, r_operand[step]);
    wgmma_fence();
    multiply_rows(x, r_operand, shared_address(stage.record.planes.inverse_high),
                  shared_address(stage.record.planes.inverse_low));
    wgmma_commit();
    wgmma_wait<0>();
    pin(x);
    pin(out);
#pragma unroll
    for (int i = 0; i < 32; ++i) x[i] *= r_scales.inverse[i / 2 % 2];

    // P N, into r; then K^T (decay_to_last N), half of the features at a time
    const RowScales n_scales = row_scales(x);
    Split n[4];
#pragma unroll
    for (int step = 0; step < 4; ++step) operand(x, step, n_scales, n[step]);
    wgmma_fence();
    multiply_rows(r, n, shared_address(stage.record.planes.scores_high),
                  shared_address(stage.record.planes.scores_low));
    wgmma_commit();
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      const float2 f = *reinterpret_cast<const float2*>(gates.decay_to_last + 8 * tile + column);
#pragma unroll
      for (int i = 0; i < 4; ++i) x[4 * tile + i] *= i % 2 == 0 ? f.x : f.y;
    }
    const RowScales decayed_scales = row_scales(x);
    Split decayed[4];
#pragma unroll
    for (int step = 0; step < 4; ++step) operand(x, step, decayed_scales, decayed[step]);
    float change[32];
    const std::uint32_t k_high = shared_address(stage.keys.k_high), k_low = shared_address(stage.keys.k_low);
    wgmma_fence();
    multiply_columns(change, decayed, k_high, k_low);
    wgmma_commit();
    wgmma_wait<1>();
    pin(r);

    // O
    float* y = y_from_v + value_at;
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      const float2 f = *reinterpret_cast<const float2*>(gates.query_decay + 8 * tile + column);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = 4 * tile + i, token = 8 * tile + i % 2, row = i / 2;
        const float from_state = out[at] * (state_scales.inverse[row] * (1.0F / kPlaneScale));
        const float from_chunk = r[at] * (n_scales.inverse[row] * (1.0F / kPlaneScale));
        const float sum = __fmaf_rn(i % 2 == 0 ? f.x : f.y, from_state, scale * from_chunk);
        if (token >= known && token < tokens) y[token * token_stride + 8 * row] = sum;
      }
    }
    value_at += std::int64_t{kChunk} * token_stride;

    const float chunk_decay = gates.chunk_decay[0];
    wgmma_wait<0>();
    pin(change);
    update_state<0>(state, chunk_decay, change, decayed_scales);
    wgmma_fence();
    multiply_columns(change, decayed, k_high + kPanelBytes, k_low + kPanelBytes);
    wgmma_commit();
    wgmma_wait<0>();
    pin(change);
    update_state<1>(state, chunk_decay, change, decayed_scales);
  }
}

__device__ __forceinline__ void scan(const DeltaNetF32Args& args, const Tensors& from) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const int sequence = static_cast<int>(blockIdx.y);
  Place place;
  place.head = static_cast<int>(blockIdx.x) / kBlocksPerHead;
  place.first_value = static_cast<int>(blockIdx.x) % kBlocksPerHead * kValues;
  place.key_head = place.head / (args.value_heads / args.key_heads);
  place.first = __ldg(args.cu_seqlens + sequence);
  place.first_y = place.first - (sequence + 1) * args.prefix_tokens;
  place.tokens = __ldg(args.cu_seqlens + sequence + 1) - place.first;
  place.chunks = (place.tokens + kChunk - 1) / kChunk;
  place.slot = first_slot(place.first, sequence);
  if (threadIdx.x == 0) {
    for (std::uint64_t& barrier : s.loaded) barrier_init(barrier, 1);
    barrier_init_done();
  }
  __syncthreads();
  wait_for_inputs();  // what was uploaded for the pass is read before
  if (place.chunks <= 0) return;
  if (threadIdx.x == 0) load(args, from, place, 0, s);
  compute(args, from, place, s);
}

__global__ void __launch_bounds__(kThreads, 1)
    delta_net_f32_scan_kernel(const __grid_constant__ DeltaNetF32Args args, const Tensors from) {
  let_next_start();
  if (kHasWarpgroupProducts) {
    scan(args, from);
  } else {
    __trap();  // the launcher does not choose it
  }
}

}  // namespace

cudaError_t launch_delta_net_f32_scan(const DeltaNetF32Args& args, cudaStream_t stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared));
  const cudaError_t status =
      cudaFuncSetAttribute(delta_net_f32_scan_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(args.value_heads * kBlocksPerHead), static_cast<unsigned>(args.sequences));
  return Launch(grid, kThreads, kBytes, stream)
      .run(delta_net_f32_scan_kernel, args, Tensors{key_planes(args), chunk_records(args)});
}

}  // namespace clef::cuda
