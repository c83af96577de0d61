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
constexpr int kAtOnce = 4;                     // of them, whose loads and shuffles overlap
// The block starts with 168 registers a thread, all that 384 threads can have; the computing threads, which hold the
// state, take over what the moving ones do not need.
constexpr int kComputeRegisters = 208, kMoveRegisters = 88;
static_assert(kComputeGroups * kComputeRegisters + kMoveRegisters <= (1 + kComputeGroups) * 168);

struct alignas(1024) Stage {  // the tiles in this order
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

// A thread's share: a piece of 16 bytes of every kRowsAtOnce-th row. Pointers are to bytes and walk from chunk to
// chunk: this warpgroup's arithmetic is on the chunks' critical path.
template <bool kNorm>
class Mover {
 public:
  __device__ Mover(const DeltaNetArgs& args, const GatedRmsNormArgs& norm, Shared& s, const Place& place)
      : args_(args), norm_(norm), s_(s), place_(place) {
    const std::int64_t key_offset = offset(args.key_heads, place.key_head);
    const std::int64_t value_offset = offset(args.value_heads, place.head);
    k_ = reinterpret_cast<const char*>(args.k) + key_offset;
    q_ = reinterpret_cast<const char*>(args.q) + key_offset;
    v_ = reinterpret_cast<const char*>(args.v) + value_offset;
    y_ = reinterpret_cast<char*>(kNorm ? norm.y : args.y) + value_offset;
    key_step_ = std::int64_t{args.key_heads} * kRowsAtOnce * kTokenBytes;
    value_step_ = std::int64_t{args.value_heads} * kRowsAtOnce * kTokenBytes;
    record_ = static_cast<const ChunkRecord*>(args.workspace) +
              std::int64_t{first_slot(place.first, place.sequence)} * args.value_heads + place.head;
    if constexpr (kNorm) {
      z_ = reinterpret_cast<const char*>(norm.z) + (place.first + row_) * norm.z_stride * 2 + place.head * kTokenBytes +
           piece_ * 16;
      z_step_ = norm.z_stride * kRowsAtOnce * 2;
      load_gain(norm.gain + piece_ * kFeaturesPerLane, gain_);
    }
  }

  __device__ void run() {
    // A group of copies a chunk, empty past the last, so that the counts in copy_wait hold.
    for (int chunk = 0; chunk < kAhead; ++chunk) {
      if (chunk < place_.chunks) load(chunk);
      copy_commit();
    }
    copy_wait<kAhead - 1>();
    announce(0);
#pragma unroll 1
    for (int chunk = 0; chunk <= place_.chunks; ++chunk) {
      const int next = chunk + kAhead;
      if (next < place_.chunks) {
        if (next >= kStages) barrier_wait(s_.used[next % kStages], next / kStages - 1);
        load(next);
      }
      copy_commit();
      copy_wait<kAhead - 1>();
      if (chunk + 1 < place_.chunks) announce(chunk + 1);
      if (chunk > 0) store(chunk - 1);
    }
    if (overflowed_ && args_.overflow != nullptr) args_.overflow[place_.sequence] = 1;
  }

 private:
  static constexpr int kTokenBytes = kDeltaNetHeadDim * 2;  // of a head

  __device__ std::int64_t offset(int heads, int head) const {
    return (std::int64_t{place_.first + row_} * heads + head) * kTokenBytes + piece_ * 16;
  }

  __device__ void announce(int chunk) {
    fence_shared_for_async();
    barrier_arrive(s_.loaded[chunk % kStages]);
  }

  // Chunks are loaded in order.
  __device__ void load(int chunk) {
    Stage& stage = s_.stages[chunk % kStages];
    const int tokens = place_.tokens - chunk * kChunk;
    std::uint32_t to = shared_address(&stage) + tile_offset(row_, piece_);
    if (tokens >= kChunk) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        copy_piece(to, k_, true);
        copy_piece(to + kTileBytes, q_, true);
        copy_piece(to + 2 * kTileBytes, v_, true);
        to += kRowsAtOnce * kRowBytes;
        k_ += key_step_, q_ += key_step_, v_ += value_step_;
      }
    } else {
      // Rows past the end are zeros: in memory they belong to a neighbour, or to nobody.
#pragma unroll 1
      for (int i = 0; i < kPieces; ++i) {
        const bool present = i * kRowsAtOnce + row_ < tokens;
        copy_piece(to, present ? k_ : static_cast<const void*>(args_.k), present);
        copy_piece(to + kTileBytes, present ? q_ : static_cast<const void*>(args_.q), present);
        copy_piece(to + 2 * kTileBytes, present ? v_ : static_cast<const void*>(args_.v), present);
        to += kRowsAtOnce * kRowBytes;
        k_ += key_step_, q_ += key_step_, v_ += value_step_;
      }
    }
    if (threadIdx.x % kGroupThreads == 0) {
      const std::uint32_t barrier = shared_address(&s_.loaded[chunk % kStages]);
      asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "n"(sizeof(ChunkRecord))
                   : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                       shared_address(&stage.record)),
                   "l"(record_), "n"(sizeof(ChunkRecord)), "r"(barrier)
                   : "memory");
    }
    record_ += args_.value_heads;
  }

  __device__ void load_gates(int tokens, int done, uint4 (&gates)[kAtOnce]) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      gates[i] = uint4{};
      if ((done + i) * kRowsAtOnce + row_ < tokens) gates[i] = load_bits(reinterpret_cast<const __half*>(z_));
      z_ += z_step_;
    }
  }

  __device__ void store(int chunk) {
    const int tokens = place_.tokens - chunk * kChunk;
    const unsigned char* from = s_.outputs + tile_offset(row_, piece_);
    uint4 gates[kAtOnce];
    if constexpr (kNorm) load_gates(tokens, 0, gates);
    barrier_wait(s_.written, chunk);
#pragma unroll 1
    for (int done = 0; done < kPieces; done += kAtOnce) {
      uint4 bits[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) bits[i] = *reinterpret_cast<const uint4*>(from + i * kRowsAtOnce * kRowBytes);
      from += kAtOnce * kRowsAtOnce * kRowBytes;
      if (done + kAtOnce == kPieces) barrier_arrive(s_.stored);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        overflowed_ |= saturate(bits[i]);  // rows past the end are zeros
        if constexpr (kNorm) {
          float x[kFeaturesPerLane], z[kFeaturesPerLane];
          unpack8(bits[i], x);
          unpack8(gates[i], z);
          gated_rms_norm(x, z, gain_, norm_.eps);
          bits[i] = pack8(x);
          overflowed_ |= saturate(bits[i]);
        }
        if ((done + i) * kRowsAtOnce + row_ < tokens) *reinterpret_cast<uint4*>(y_) = bits[i];
        y_ += value_step_;
      }
      if constexpr (kNorm) {
        if (done + kAtOnce < kPieces) load_gates(tokens, done + kAtOnce, gates);
      }
    }
  }

  const DeltaNetArgs& args_;
  const GatedRmsNormArgs& norm_;
  Shared& s_;
  const Place& place_;
  const int piece_ = static_cast<int>(threadIdx.x) % kLanesPerHead;
  const int row_ = static_cast<int>(threadIdx.x) % kGroupThreads / kLanesPerHead;
  const char *k_, *q_, *v_, *z_ = nullptr;
  char* y_;
  std::int64_t key_step_, value_step_, z_step_ = 0;
  const ChunkRecord* record_;
  float gain_[kFeaturesPerLane];
  bool overflowed_ = false;
};

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
    Mover<kNorm>(args, norm, s, place).run();
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
