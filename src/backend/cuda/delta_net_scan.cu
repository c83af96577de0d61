// DeltaNet's second pass: chunk after chunk of a value head, with the state in registers.
// Arithmetic: with S the state [head_dim, value_dim] at the chunk's start, in f32, and T, P and the decays of the
//             chunk's record:
//               R = beta V - beta e^gamma (K S);   N = T R;   O = e^gamma (Q S) + P N
//               S = e^gamma_last S + K^T (decay_to_last N)
//             Operands are f16 (S, R, N and the scaled N rounded once), sums f32 in the tensor core's order, sixteen
//             of depth at a time, ascending.
// Schedule:   a block a value head of a sequence: two warpgroups hold 64 value columns each, as rows of the
//             transposed state, so that each product's result is the next one's operand without leaving registers;
//             a third warpgroup loads two chunks ahead and stores the outputs of the one before.
// Bound:      tensor cores, about 2,000 cycles a chunk; with few heads and sequences, that times the chunks.
#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_common.cuh"
#include "backend/cuda/delta_net_tile.cuh"
#include "backend/cuda/delta_net_wgmma.cuh"
#include "backend/cuda/gated_rms_norm.cuh"

namespace clef::cuda {
namespace {

constexpr int kGroupThreads = 128;
constexpr int kComputeGroups = 2;
constexpr int kThreads = kGroupThreads * (1 + kComputeGroups);
constexpr int kComputeWarps = kComputeGroups * kGroupThreads / 32;
constexpr int kStages = 3, kAhead = kStages - 1;
constexpr int kRowsAtOnce = kGroupThreads / kLanesPerHead;
constexpr int kPieces = kChunk / kRowsAtOnce;  // of 16 bytes, that a thread moves of a tile
// The block starts with 168 registers a thread, all that 384 threads can have; the computing threads, which hold the
// state, take over what the moving ones do not need.
constexpr int kComputeRegisters = 208, kMoveRegisters = 88;
static_assert(kComputeGroups * kComputeRegisters + kMoveRegisters <= (1 + kComputeGroups) * 168);

struct alignas(1024) Stage {
  unsigned char k[kTileBytes], q[kTileBytes], v[kTileBytes];
  ChunkRecord record;
};
struct Shared {
  Stage stages[kStages];
  unsigned char outputs[kTileBytes];
  std::uint64_t loaded[kStages], used[kStages];  // barriers: a stage is full, is free again
  std::uint64_t written, stored;                 // likewise of outputs
};
static_assert(sizeof(Shared) <= 227 * 1024);

__device__ __forceinline__ void barrier_init(std::uint64_t& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(std::uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
// Waits for the end of the barrier's phase: the count-th phase, from 0, has ended.
__device__ __forceinline__ void barrier_wait(std::uint64_t& barrier, int count) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}\n" ::"r"(shared_address(&barrier)),
      "r"(count % 2)
      : "memory");
}

struct Place {
  int sequence, first, tokens, chunks, head, key_head;  // of this block: a head of a sequence
};

// --- The moving warpgroup ---

__device__ void load_chunk(const DeltaNetArgs& args, Shared& s, const Place& place, int chunk) {
  Stage& stage = s.stages[chunk % kStages];
  const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  const int piece = thread % kLanesPerHead, row_in_group = thread / kLanesPerHead;
  const int first = place.first + chunk * kChunk, tokens = place.tokens - chunk * kChunk;
  const std::uint32_t k = shared_address(stage.k), q = shared_address(stage.q), v = shared_address(stage.v);
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int row = i * kRowsAtOnce + row_in_group;
    const bool present = row < tokens;  // the others are zeros: they belong to a neighbour, or to nobody
    const std::int64_t token = first + (present ? row : 0);
    const std::int64_t key_place = (token * args.key_heads + place.key_head) * kDeltaNetHeadDim + piece * 8;
    const std::int64_t value_place = (token * args.value_heads + place.head) * kDeltaNetHeadDim + piece * 8;
    const std::uint32_t offset = tile_offset(row, piece);
    copy_piece(k + offset, args.k + key_place, present);
    copy_piece(q + offset, args.q + key_place, present);
    copy_piece(v + offset, args.v + value_place, present);
  }
  if (thread == 0) {
    const int slot = first_slot(place.first, place.sequence) + chunk;
    const auto* record =
        static_cast<const ChunkRecord*>(args.workspace) + std::int64_t{slot} * args.value_heads + place.head;
    const std::uint32_t barrier = shared_address(&s.loaded[chunk % kStages]);
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "n"(sizeof(ChunkRecord))
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(&stage.record)),
                 "l"(record), "n"(sizeof(ChunkRecord)), "r"(barrier)
                 : "memory");
  }
}

template <bool kNorm>
__device__ void store_chunk(const DeltaNetArgs& args, const GatedRmsNormArgs& norm, Shared& s, const Place& place,
                            int chunk) {
  constexpr int kAtOnce = 4;  // pieces whose loads and shuffles overlap
  const int thread = static_cast<int>(threadIdx.x) % kGroupThreads;
  const int piece = thread % kLanesPerHead, row_in_group = thread / kLanesPerHead;
  const int first = place.first + chunk * kChunk, tokens = place.tokens - chunk * kChunk;
  const int feature = place.head * kDeltaNetHeadDim + piece * kFeaturesPerLane;
  const auto load_gates = [&](int half, uint4(&gates)[kAtOnce]) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int row = min((half * kAtOnce + i) * kRowsAtOnce + row_in_group, tokens - 1);
      gates[i] = load_bits(norm.z + (first + row) * norm.z_stride + feature);
    }
  };
  uint4 gates[kAtOnce];
  if constexpr (kNorm) load_gates(0, gates);
  barrier_wait(s.written, chunk);
  bool overflowed = false;
#pragma unroll
  for (int half = 0; half < kPieces / kAtOnce; ++half) {
    uint4 bits[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int row = (half * kAtOnce + i) * kRowsAtOnce + row_in_group;
      bits[i] = *reinterpret_cast<const uint4*>(s.outputs + tile_offset(row, piece));
    }
    if (half + 1 == kPieces / kAtOnce) barrier_arrive(s.stored);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int row = (half * kAtOnce + i) * kRowsAtOnce + row_in_group;
      const bool present = row < tokens;
      overflowed |= saturate(bits[i]) && present;
      if constexpr (kNorm) {
        float x[kFeaturesPerLane], z[kFeaturesPerLane], gain[kFeaturesPerLane];
        unpack8(bits[i], x);
        unpack8(gates[i], z);
        load_gain(norm.gain + piece * kFeaturesPerLane, gain);
        gated_rms_norm(x, z, gain, norm.eps);
        bits[i] = pack8(x);
        overflowed |= saturate(bits[i]) && present;
      }
      __half* const y = (kNorm ? norm.y : args.y) + std::int64_t{first + row} * args.value_heads * kDeltaNetHeadDim;
      if (present) *reinterpret_cast<uint4*>(y + feature) = bits[i];
    }
    if constexpr (kNorm) {
      if (half + 1 < kPieces / kAtOnce) load_gates(half + 1, gates);
    }
  }
  if (overflowed && args.overflow != nullptr) args.overflow[place.sequence] = 1;
}

template <bool kNorm>
__device__ void move(const DeltaNetArgs& args, const GatedRmsNormArgs& norm, Shared& s, const Place& place) {
  const auto announce = [&](int chunk) {
    fence_shared_for_async();
    barrier_arrive(s.loaded[chunk % kStages]);
  };
  // A group of copies a chunk, empty past the last, so that the counts in copy_wait hold.
  for (int chunk = 0; chunk < kAhead; ++chunk) {
    if (chunk < place.chunks) load_chunk(args, s, place, chunk);
    copy_commit();
  }
  copy_wait<kAhead - 1>();
  announce(0);
  for (int chunk = 0; chunk < place.chunks; ++chunk) {
    const int next = chunk + kAhead;
    if (next < place.chunks) {
      if (next >= kStages) barrier_wait(s.used[next % kStages], next / kStages - 1);
      load_chunk(args, s, place, next);
    }
    copy_commit();
    copy_wait<kAhead - 1>();
    if (chunk + 1 < place.chunks) announce(chunk + 1);
    if (chunk > 0) store_chunk<kNorm>(args, norm, s, place, chunk - 1);
  }
  store_chunk<kNorm>(args, norm, s, place, place.chunks - 1);
}

// --- The computing warpgroups ---

// Columns 16 * step to 16 * step + 15 of d, rounded, as the A operand of a product.
template <int kSize>
__device__ __forceinline__ void operand(const float (&d)[kSize], int step, std::uint32_t (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = pack(d[8 * step + 2 * i], d[8 * step + 2 * i + 1]);
}

// d += A L^T for a panel L [64, 64]. The triangles' zeros are multiplied too: products into part of d would cost the
// compiler registers that it does not have.
__device__ __forceinline__ void multiply(float (&d)[32], const std::uint32_t (&a)[4][4], std::uint32_t panel,
                                         bool accumulate) {
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    wgmma_n64<false>(d, a[step], wgmma_panel(panel + static_cast<std::uint32_t>(32 * step), 16),
                     accumulate || step > 0);
  }
}

// d[.., token] = d[.., token] * factor[token]
__device__ __forceinline__ void scale_columns(float (&d)[32], const float* factor) {
#pragma unroll
  for (int tile = 0; tile < 8; ++tile) {
    const float2 f = *reinterpret_cast<const float2*>(factor + 8 * tile);
    d[4 * tile] *= f.x;
    d[4 * tile + 1] *= f.y;
    d[4 * tile + 2] *= f.x;
    d[4 * tile + 3] *= f.y;
  }
}

// All matrices transposed: rows are value columns, this warp's sixteen among them; columns are key features or tokens.
__device__ void compute(Shared& s, const Place& place, int group) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4, lane = static_cast<int>(threadIdx.x) % 32;
  // In a panel [64 tokens, 64 values] of V or of the outputs: where this lane points when the warp moves [16, 16].
  const std::uint32_t panel_lane =
      static_cast<std::uint32_t>(group * kPanelBytes) + panel_offset(lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2);
  const int column = lane % 4 * 2;  // and the next, of each eight
  float state[64] = {};
  for (int chunk = 0; chunk < place.chunks; ++chunk) {
    const Stage& stage = s.stages[chunk % kStages];
    const ChunkRecord& record = stage.record;
    const std::uint32_t k = shared_address(stage.k), q = shared_address(stage.q), v = shared_address(stage.v);

    std::uint32_t state_operand[8][4];
#pragma unroll
    for (int step = 0; step < 8; ++step) operand(state, step, state_operand[step]);
    barrier_wait(s.loaded[chunk % kStages], chunk / kStages);

    // x = (K S)^T, out = (Q S)^T
    float x[32], out[32];
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 8; ++step) {
      const auto at = static_cast<std::uint32_t>(step / 4 * kPanelBytes + step % 4 * 32);
      wgmma_n64<false>(x, state_operand[step], wgmma_panel(k + at, 16), step > 0);
    }
    wgmma_commit();
#pragma unroll
    for (int step = 0; step < 8; ++step) {
      const auto at = static_cast<std::uint32_t>(step / 4 * kPanelBytes + step % 4 * 32);
      wgmma_n64<false>(out, state_operand[step], wgmma_panel(q + at, 16), step > 0);
    }
    wgmma_commit();

    // R = beta V - beta e^gamma x
    std::uint32_t values[4][4];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      load_matrices_transposed(v + panel_lane + static_cast<std::uint32_t>(16 * step * kRowBytes), values[step]);
    }
    wgmma_wait<1>();
    pin(x);
    std::uint32_t r[4][4];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int tile = 2 * step + half;
        const float2 beta = *reinterpret_cast<const float2*>(record.beta + 8 * tile + column);
        const float2 decayed = *reinterpret_cast<const float2*>(record.minus_beta_decay + 8 * tile + column);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const float2 value = unpack(values[step][2 * half + row]);
          r[step][2 * half + row] = pack(__fmaf_rn(decayed.x, x[4 * tile + 2 * row], beta.x * value.x),
                                         __fmaf_rn(decayed.y, x[4 * tile + 2 * row + 1], beta.y * value.y));
        }
      }
    }

    // N = T R, into x; meanwhile the decays of what came from the old state
    wgmma_fence();
    multiply(x, r, shared_address(record.inverse), false);
    wgmma_commit();
    wgmma_wait<1>();
    pin(out);
    scale_columns(out, record.query_decay + column);
    const float chunk_decay = record.chunk_decay[0];
#pragma unroll
    for (int i = 0; i < 64; ++i) state[i] *= chunk_decay;
    wgmma_wait<0>();
    pin(x);

    // S += K^T (decay_to_last N), out += P N
    std::uint32_t n[4][4], n_decayed[4][4];
#pragma unroll
    for (int step = 0; step < 4; ++step) operand(x, step, n[step]);
    scale_columns(x, record.decay_to_last + column);
#pragma unroll
    for (int step = 0; step < 4; ++step) operand(x, step, n_decayed[step]);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      wgmma_n128<true>(state, n_decayed[step],
                       wgmma_panel(k + static_cast<std::uint32_t>(16 * step * kRowBytes), kPanelBytes), true);
    }
    wgmma_commit();
    multiply(out, n, shared_address(record.scores), true);
    wgmma_commit();
    wgmma_wait<0>();
    pin(state);
    pin(out);
    __syncwarp();
    if (lane == 0) barrier_arrive(s.used[chunk % kStages]);

    if (chunk > 0) barrier_wait(s.stored, chunk - 1);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      std::uint32_t y[4];
      operand(out, step, y);
      asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                       shared_address(s.outputs) + panel_lane + static_cast<std::uint32_t>(16 * step * kRowBytes)),
                   "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3])
                   : "memory");
    }
    __syncwarp();
    if (lane == 0) barrier_arrive(s.written);
  }
}

template <bool kNorm>
__global__ void __launch_bounds__(kThreads, 1)
    delta_net_scan_kernel(const __grid_constant__ DeltaNetArgs args, const __grid_constant__ GatedRmsNormArgs norm) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  Place place;
  place.head = static_cast<int>(blockIdx.x);
  place.key_head = place.head / (args.value_heads / args.key_heads);
  place.sequence = static_cast<int>(blockIdx.y);
  place.first = __ldg(args.cu_seqlens + place.sequence);
  place.tokens = __ldg(args.cu_seqlens + place.sequence + 1) - place.first;
  place.chunks = (place.tokens + kChunk - 1) / kChunk;
  if (place.chunks <= 0) return;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(s.loaded[stage], kGroupThreads);
      barrier_init(s.used[stage], kComputeWarps);
    }
    barrier_init(s.written, kComputeWarps);
    barrier_init(s.stored, kGroupThreads);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kMoveRegisters));
    move<kNorm>(args, norm, s, place);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kComputeRegisters));
    compute(s, place, group - 1);
  }
}

template <bool kNorm>
cudaError_t launch(const DeltaNetArgs& args, const GatedRmsNormArgs& norm, cudaStream_t stream) {
  const cudaError_t status = cudaFuncSetAttribute(
      delta_net_scan_kernel<kNorm>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(Shared)));
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(args.value_heads), static_cast<unsigned>(args.sequences));
  delta_net_scan_kernel<kNorm><<<grid, kThreads, sizeof(Shared), stream>>>(args, norm);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_delta_net_scan(const DeltaNetArgs& args, const GatedRmsNormArgs* norm, cudaStream_t stream) {
  return norm != nullptr ? launch<true>(args, *norm, stream) : launch<false>(args, {}, stream);
}

}  // namespace clef::cuda
