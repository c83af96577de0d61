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
// Schedule:   a block half a value head of a sequence: 64 value columns, as rows of the transposed state, so that each
//             product's result is the next one's operand without leaving registers. One warpgroup runs the chain from
//             state to state, K S, T R and K^T N; it hands S, split, and N over in shared memory to the other, which
//             computes the outputs, Q S and P N, in the chain's shadow. An operand is split sixteen of depth at a time
//             while the tensor cores are at the ones before. Bulk copies bring the planes, and v comes to registers,
//             while the chunk before is computed; v and y pass between registers and memory, whole sectors at a time.
// Bound:      both warpgroups' work of a chunk, 3.4 us each: its products alone take the tensor cores 1.6 us, and what
//             lies between them the rest.
#include "backend/cuda/delta_net_barrier.cuh"
#include "backend/cuda/delta_net_f32.h"
#include "backend/cuda/delta_net_f32_tile.cuh"
#include "backend/cuda/delta_net_split.cuh"
#include "backend/cuda/delta_net_wgmma.cuh"
#include "backend/cuda/launch.h"

namespace clef::cuda {
namespace {

constexpr int kGroupThreads = 128, kThreads = 2 * kGroupThreads;
constexpr int kValues = kDeltaNetHeadDim / 2;  // value columns of a block
constexpr int kBlocksPerHead = kDeltaNetHeadDim / kValues;
constexpr int kStages = 2;
constexpr int kStateSteps = kDeltaNetHeadDim / 16, kChunkSteps = kChunk / 16;  // of a product's depth

struct alignas(1024) Stage {
  KeyPlanes keys;
  ChunkPlanes chunk;
};
struct Shared {
  Stage stages[kStages];
  // What the chain hands over, a column a lane: the words of S's operand, then in the same place N.
  uint4 handed[2 * kStateSteps][kGroupThreads];
  ChunkGates gates[kStages];  // apart from the planes, whose alignment would cost a kilobyte each
  float state_inverse[kValues];
  // Barriers: of a stage T and Q are there, which are free again when the chunk's N is known; and the rest.
  std::uint64_t loaded_early[kStages], loaded_late[kStages];
  std::uint64_t state_taken, n_taken;  // from the buffer, by all lanes of the outputs; once a chunk each
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

// Brings half of what a chunk needs; by one thread.
__device__ __forceinline__ void load_early(const DeltaNetF32Args& args, const Tensors& from, const Place& place,
                                           int chunk, Shared& s) {
  Stage& stage = s.stages[chunk % kStages];
  std::uint64_t& barrier = s.loaded_early[chunk % kStages];
  const std::int64_t slot = place.slot + chunk;
  const KeyPlanes& keys = from.keys[slot * args.key_heads + place.key_head];
  const ChunkPlanes& planes = from.records[slot * args.value_heads + place.head].planes;
  constexpr unsigned kKeyBytes = sizeof keys.q_high + sizeof keys.q_low;
  constexpr unsigned kChunkBytes = sizeof planes.inverse_high + sizeof planes.inverse_low;
  barrier_arrive_expecting(barrier, kKeyBytes + kChunkBytes);
  bulk_load(stage.keys.q_high, keys.q_high, kKeyBytes, barrier);
  bulk_load(stage.chunk.inverse_high, planes.inverse_high, kChunkBytes, barrier);
}
__device__ __forceinline__ void load_late(const DeltaNetF32Args& args, const Tensors& from, const Place& place,
                                          int chunk, Shared& s) {
  Stage& stage = s.stages[chunk % kStages];
  std::uint64_t& barrier = s.loaded_late[chunk % kStages];
  const std::int64_t slot = place.slot + chunk;
  const KeyPlanes& keys = from.keys[slot * args.key_heads + place.key_head];
  const ChunkF32Record& record = from.records[slot * args.value_heads + place.head];
  constexpr unsigned kKeyBytes = sizeof keys.k_high + sizeof keys.k_low;
  constexpr unsigned kChunkBytes = sizeof record.planes.scores_high + sizeof record.planes.scores_low;
  barrier_arrive_expecting(barrier, kKeyBytes + sizeof(ChunkGates) + kChunkBytes);
  bulk_load(stage.keys.k_high, keys.k_high, kKeyBytes, barrier);
  bulk_load(&s.gates[chunk % kStages], &record.gates, sizeof(ChunkGates), barrier);
  bulk_load(stage.chunk.scores_high, record.planes.scores_high, kChunkBytes, barrier);
}

// What the chain tells the outputs: barriers of the multiprocessor, of which __syncthreads() is number 0. Each comes
// once a chunk, and between two of them the chain has heard that what the first told of was taken.
enum class Signal : int { kStateHanded = 1, kNHanded };
__device__ __forceinline__ void tell(Signal signal) {
  asm volatile("bar.arrive %0, %1;" ::"r"(static_cast<int>(signal)), "n"(kThreads) : "memory");
}
__device__ __forceinline__ void hear(Signal signal) {
  asm volatile("bar.sync %0, %1;" ::"r"(static_cast<int>(signal)), "n"(kThreads) : "memory");
}

// The largest of each of a lane's two rows: a lane's d[4t + 0, 1] lie in one row of the tile, d[4t + 2, 3] eight rows
// below.
template <int kSize>
__device__ __forceinline__ void take_most(const float (&d)[kSize], float (&most)[2]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
#pragma unroll
    for (int i = 2 * row; i < kSize; i += 4) most[row] = fmaxf(most[row], fmaxf(fabsf(d[i]), fabsf(d[i + 1])));
  }
}

// For both rows a power of two that brings the row's largest number to 2^12 or less than twice that, and its
// reciprocal; numbers that are not finite stay so.
struct RowScales {
  float scale[2], inverse[2];
};
__device__ __forceinline__ RowScales row_scales_of(const float (&lane_most)[2]) {
  constexpr unsigned kBias = 127, kGoal = 12;
  RowScales scales;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    float most = lane_most[row];
    most = fmaxf(most, __shfl_xor_sync(~0U, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0U, most, 2));
    const unsigned exponent = __float_as_uint(most) >> 23;
    const unsigned scale = min(2 * kBias + kGoal - exponent, 2 * kBias - 1);  // both ways of normal numbers
    scales.scale[row] = __uint_as_float(scale << 23);
    scales.inverse[row] = __uint_as_float((2 * kBias - scale) << 23);
  }
  return scales;
}
template <int kSize>
__device__ __forceinline__ RowScales row_scales(const float (&d)[kSize]) {
  float most[2] = {};
  take_most(d, most);
  return row_scales_of(most);
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

// d = A B, the small products first; make(step) makes a[step], with the tensor cores at the steps before. B's columns
// are the rows of a tile [64, 16 * kSteps] of two planes in shared memory, kPanelBytes for each 64 of its depth.
template <int kSteps, typename Make>
__device__ __forceinline__ void multiply_rows(float (&d)[32], Split (&a)[kSteps], std::uint32_t high, std::uint32_t low,
                                              const Make& make) {
  const auto at = [](int step) { return static_cast<std::uint32_t>(step / 4 * kPanelBytes + step % 4 * 32); };
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    make(step);
    wgmma_fence();
    wgmma_n64<false>(d, a[step].low, wgmma_panel(high + at(step), 16), step > 0);
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) wgmma_n64<false>(d, a[step].high, wgmma_panel(low + at(step), 16), true);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) wgmma_n64<false>(d, a[step].high, wgmma_panel(high + at(step), 16), true);
  wgmma_commit();
}
// The same with B's rows the rows of two panels [64, 64] side by side: in one product of 128 columns, as two of 64 that
// follow each other take twice as long.
template <typename Make>
__device__ __forceinline__ void multiply_columns(float (&d)[64], Split (&a)[kChunkSteps], std::uint32_t high,
                                                 std::uint32_t low, const Make& make) {
  const auto at = [](int step) { return static_cast<std::uint32_t>(16 * step * kRowBytes); };
#pragma unroll
  for (int step = 0; step < kChunkSteps; ++step) {
    make(step);
    wgmma_fence();
    wgmma_n128<true>(d, a[step].low, wgmma_panel(high + at(step), kPanelBytes), step > 0);
  }
#pragma unroll
  for (int step = 0; step < kChunkSteps; ++step)
    wgmma_n128<true>(d, a[step].high, wgmma_panel(low + at(step), kPanelBytes), true);
#pragma unroll
  for (int step = 0; step < kChunkSteps; ++step)
    wgmma_n128<true>(d, a[step].high, wgmma_panel(high + at(step), kPanelBytes), true);
  wgmma_commit();
}

// The state takes in what the chunk brings; most: what it leaves for scales.
__device__ __forceinline__ void update_state(float (&state)[64], float chunk_decay, const float (&change)[64],
                                             const RowScales& scales, float (&most)[2]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    state[i] = __fmaf_rn(chunk_decay, state[i], change[i] * (scales.inverse[i / 2 % 2] * (1.0F / kPlaneScale)));
  }
  most[0] = most[1] = 0.0F;
  take_most(state, most);
}

// A lane's place among the value columns and tokens. All matrices are transposed: rows are value columns, a warp's
// sixteen among them; columns are key features or tokens. Which row stands for which value column is free: a lane's two
// rows are neighbours in memory, so that it moves pairs.
struct Lane {
  __device__ Lane(const DeltaNetF32Args& args, const Place& place)
      : row(static_cast<int>(threadIdx.x) % kGroupThreads / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4),
        column(static_cast<int>(threadIdx.x) % 4 * 2),
        token_stride(args.value_heads * kDeltaNetHeadDim),
        value_at(std::int64_t{place.first + column} * token_stride + place.head * kDeltaNetHeadDim + place.first_value +
                 row / 16 * 16 + row % 16 * 2) {}
  int row, column;  // the first; the next row eight below, the next column beside, of each eight
  int token_stride;
  std::int64_t value_at;  // in v, of the first chunk, the first row's; the other's behind it
};

// --- The chain ---

// V of a chunk, zeros past the sequence's end: tokens are counted from this lane's first.
__device__ __forceinline__ void load_values(const float* v, int token_stride, int tokens, float (&values)[32]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const int token = i / 2 * 8 + i % 2;
    float2 pair = {0.0F, 0.0F};
    if (token < tokens) pair = __ldg(reinterpret_cast<const float2*>(v + token * token_stride));
    values[i / 2 * 4 + i % 2] = pair.x;
    values[i / 2 * 4 + i % 2 + 2] = pair.y;
  }
}

__device__ __forceinline__ void run_chain(const DeltaNetF32Args& args, const Place& place, Shared& s) {
  const Lane lane(args, place);
  const std::uint32_t handed = shared_address(&s.handed[0][threadIdx.x]);
  const auto hand = [&](int words, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    store_words(handed + static_cast<std::uint32_t>(words * sizeof s.handed[0]), make_uint4(a, b, c, d));
  };
  const float* v = args.v + lane.value_at;
  int tokens = place.tokens - lane.column;  // from this lane's first
  float state[64] = {}, most[2] = {}, r[32];
  load_values(v, lane.token_stride, tokens, r);
#pragma unroll 1
  for (int chunk = 0; chunk < place.chunks; ++chunk) {
    const Stage& stage = s.stages[chunk % kStages];
    const ChunkGates& gates = s.gates[chunk % kStages];
    const int count = chunk / kStages;

    // x = (K S)^T
    const RowScales state_scales = row_scales_of(most);
    barrier_wait(s.loaded_late[chunk % kStages], count);
    const std::uint32_t k_high = shared_address(stage.keys.k_high), k_low = shared_address(stage.keys.k_low);
    float x[32];
    Split state_operand[kStateSteps];
    multiply_rows(x, state_operand, k_high, k_low, [&](int step) {
      Split& a = state_operand[step];
      operand(state, step, state_scales, a);
      hand(2 * step, a.high[0], a.high[1], a.high[2], a.high[3]);
      hand(2 * step + 1, a.low[0], a.low[1], a.low[2], a.low[3]);
      if (step < kStateSteps - 1) return;
      if (threadIdx.x % 4 == 0) {
        s.state_inverse[lane.row] = state_scales.inverse[0];
        s.state_inverse[lane.row + 8] = state_scales.inverse[1];
      }
      tell(Signal::kStateHanded);
    });

    // R = beta V - beta e^gamma x
    float decays[16];
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      const float4 f = *reinterpret_cast<const float4*>(gates.value_gates[4 * tile + lane.column / 2]);
      decays[2 * tile] = f.z;
      decays[2 * tile + 1] = f.w;
#pragma unroll
      for (int i = 0; i < 4; ++i) r[4 * tile + i] *= i % 2 == 0 ? f.x : f.y;
    }
    wgmma_wait<0>();
    pin(x);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const float inverse = state_scales.inverse[i / 2 % 2] * (1.0F / kPlaneScale);
      r[i] = __fmaf_rn(decays[i / 4 * 2 + i % 2], x[i] * inverse, r[i]);
    }

    // N = T R, into x
    const RowScales r_scales = row_scales(r);
    barrier_wait(s.loaded_early[chunk % kStages], count);
    Split r_operand[kChunkSteps];
    multiply_rows(x, r_operand, shared_address(stage.chunk.inverse_high), shared_address(stage.chunk.inverse_low),
                  [&](int step) { operand(r, step, r_scales, r_operand[step]); });
    float to_last[16];
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      const float2 f = *reinterpret_cast<const float2*>(gates.decay_to_last + 8 * tile + lane.column);
      to_last[2 * tile] = f.x;
      to_last[2 * tile + 1] = f.y;
    }
    barrier_wait(s.state_taken, chunk);
    wgmma_wait<0>();
    pin(x);
#pragma unroll
    for (int i = 0; i < 32; ++i) x[i] *= r_scales.inverse[i / 2 % 2];
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      hand(tile, __float_as_uint(x[4 * tile]), __float_as_uint(x[4 * tile + 1]), __float_as_uint(x[4 * tile + 2]),
           __float_as_uint(x[4 * tile + 3]));
    }
    tell(Signal::kNHanded);

    // K^T (decay_to_last N), and the state with it
#pragma unroll
    for (int i = 0; i < 32; ++i) x[i] *= to_last[i / 4 * 2 + i % 2];
    const RowScales decayed_scales = row_scales(x);
    Split decayed[kChunkSteps];
    float change[64];
    multiply_columns(change, decayed, k_high, k_low,
                     [&](int step) { operand(x, step, decayed_scales, decayed[step]); });
    v += std::int64_t{kChunk} * lane.token_stride;
    tokens -= kChunk;
    load_values(v, lane.token_stride, tokens, r);  // of the next chunk, zeros if there is none
    const float chunk_decay = gates.chunk_decay[0];
    barrier_wait(s.n_taken, chunk);
    wgmma_wait<0>();
    pin(change);
    update_state(state, chunk_decay, change, decayed_scales, most);
  }
}

// --- The outputs ---

__device__ __forceinline__ void run_outputs(const DeltaNetF32Args& args, const Tensors& from, const Place& place,
                                            Shared& s) {
  const Lane lane(args, place);
  const std::uint32_t handed = shared_address(&s.handed[0][threadIdx.x % kGroupThreads]);
  const auto take = [&](int words) {
    return load_words(handed + static_cast<std::uint32_t>(words * sizeof s.handed[0]));
  };
  const bool loads = threadIdx.x % kGroupThreads == 0;
  if (loads) {
    for (int chunk = 0; chunk < min(kStages, place.chunks); ++chunk) {
      load_late(args, from, place, chunk, s);
      load_early(args, from, place, chunk, s);
    }
  }
  const float scale = 1.0F / sqrtf(static_cast<float>(kDeltaNetHeadDim));
  float* y = args.y + lane.value_at + std::int64_t{place.first_y - place.first} * lane.token_stride;
#pragma unroll 1
  for (int chunk = 0; chunk < place.chunks; ++chunk) {
    const Stage& stage = s.stages[chunk % kStages];
    const ChunkGates& gates = s.gates[chunk % kStages];
    const int count = chunk / kStages;
    const int tokens = place.tokens - chunk * kChunk - lane.column;  // from this lane's first
    const int known = args.prefix_tokens - chunk * kChunk - lane.column;

    // out = (Q S)^T
    hear(Signal::kStateHanded);  // and so neither warpgroup is at the chunk before any more
    if (loads && chunk > 0 && chunk + 1 < place.chunks) load_late(args, from, place, chunk + 1, s);
    float out[32], state_inverse[2];
    Split state_operand[kStateSteps];
#pragma unroll
    for (int step = 0; step < kStateSteps; ++step) {
      const uint4 high = take(2 * step), low = take(2 * step + 1);
      state_operand[step] = {{high.x, high.y, high.z, high.w}, {low.x, low.y, low.z, low.w}};
    }
    state_inverse[0] = s.state_inverse[lane.row];
    state_inverse[1] = s.state_inverse[lane.row + 8];
    barrier_arrive(s.state_taken);
    barrier_wait(s.loaded_early[chunk % kStages], count);
    multiply_rows(out, state_operand, shared_address(stage.keys.q_high), shared_address(stage.keys.q_low), [](int) {});
    barrier_wait(s.loaded_late[chunk % kStages], count);
    wgmma_wait<0>();
    pin(out);

    // P N
    hear(Signal::kNHanded);  // and so T and Q are free
    if (loads && chunk + kStages < place.chunks) load_early(args, from, place, chunk + kStages, s);
    float n[32];
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      const uint4 words = take(tile);
      n[4 * tile] = __uint_as_float(words.x);
      n[4 * tile + 1] = __uint_as_float(words.y);
      n[4 * tile + 2] = __uint_as_float(words.z);
      n[4 * tile + 3] = __uint_as_float(words.w);
    }
    barrier_arrive(s.n_taken);
    const RowScales n_scales = row_scales(n);
    Split n_operand[kChunkSteps];
    float from_n[32];
    multiply_rows(from_n, n_operand, shared_address(stage.chunk.scores_high), shared_address(stage.chunk.scores_low),
                  [&](int step) { operand(n, step, n_scales, n_operand[step]); });
    wgmma_wait<0>();
    pin(from_n);

    // O
#pragma unroll
    for (int tile = 0; tile < 8; ++tile) {
      const float2 f = *reinterpret_cast<const float2*>(gates.query_decay + 8 * tile + lane.column);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = 8 * tile + i;
        const auto sum = [&](int row) {
          const int at = 4 * tile + 2 * row + i;
          const float from_state = out[at] * (state_inverse[row] * (1.0F / kPlaneScale));
          const float from_chunk = from_n[at] * (n_scales.inverse[row] * (1.0F / kPlaneScale));
          return __fmaf_rn(i == 0 ? f.x : f.y, from_state, scale * from_chunk);
        };
        const float2 pair = {sum(0), sum(1)};
        if (token >= known && token < tokens) *reinterpret_cast<float2*>(y + token * lane.token_stride) = pair;
      }
    }
    y += std::int64_t{kChunk} * lane.token_stride;
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
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(s.loaded_early[stage], 1);
      barrier_init(s.loaded_late[stage], 1);
    }
    barrier_init(s.state_taken, kGroupThreads);
    barrier_init(s.n_taken, kGroupThreads);
    barrier_init_done();
  }
  __syncthreads();
  wait_for_inputs();  // what was uploaded for the pass is read before
  if (place.chunks <= 0) return;
  if (threadIdx.x < kGroupThreads) {
    run_chain(args, place, s);
  } else {
    run_outputs(args, from, place, s);
  }
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
