// DeltaNet's second pass: chunk after chunk of a value head, with the state in registers.
// Arithmetic: with S the state [head_dim, value_dim] at the chunk's start, in f32, and T, P and the decays of the
//             chunk's record:
//               R = beta V - beta e^gamma (K S);   N = T R;   O = e^gamma (Q S) + P N
//               S = e^gamma_last S + K^T (decay_to_last N)
//             Operands are f16 (S, R, N and the scaled N rounded once), sums f32 in the tensor core's order, sixteen
//             of depth at a time, ascending.
// Schedule:   a block a value head of a sequence, or half of one: a warpgroup holds 64 value columns, as rows of the
//             transposed state, so that each product's result is the next one's operand without leaving registers;
//             another warpgroup loads two chunks ahead and stores the outputs of the one before. Halves are for the
//             few heads that leave multiprocessors free: a warpgroup alone is faster than two that share the tensor
//             cores.
// Bound:      the chain of a chunk's three products and the roundings between them, times the chunks: on an H200 1.2 us
//             a chunk in halves, 1.8 us in whole heads, whose products alone take 1.1 us.
#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_barrier.cuh"
#include "backend/cuda/delta_net_common.cuh"
#include "backend/cuda/delta_net_tile.cuh"
#include "backend/cuda/delta_net_wgmma.cuh"
#include "backend/cuda/launch.h"

namespace clef::cuda {
namespace {

constexpr int kGroupThreads = 128;
constexpr int kStages = 3, kAhead = kStages - 1;
constexpr int kKeyLanes = kLanesPerHead;             // moving threads that share a row of k or q
constexpr int kKeyRows = kGroupThreads / kKeyLanes;  // rows that they move at once
constexpr int kKeyPieces = kChunk / kKeyRows;        // of 16 bytes, a thread and tile
constexpr int kGroupValues = kDeltaNetHeadDim / 2;   // value columns of a computing warpgroup

// Two groups: the block starts with 168 registers a thread, all that 384 threads can have; the computing threads, which
// hold the state, take over what the moving ones do not need.
constexpr int kComputeRegisters = 208, kMoveRegisters = 88;
static_assert(2 * kComputeRegisters + kMoveRegisters <= 3 * 168);

template <int kGroups>
struct alignas(1024) Stage {  // the tiles in this order
  unsigned char k[kTileBytes], q[kTileBytes], v[kGroups * kPanelBytes];
  ChunkRecord record;
};
template <int kGroups>
struct Shared {
  Stage<kGroups> stages[kStages];
  unsigned char outputs[kGroups * kPanelBytes];
  std::uint64_t loaded[kStages], used[kStages];  // barriers: a stage is full, is free again
  std::uint64_t written, stored;                 // likewise of outputs
};
static_assert(sizeof(Shared<2>) <= 227 * 1024);

struct Place {
  int sequence, first, tokens, chunks, head, key_head, first_value;  // of this block
};

// --- The moving warpgroup ---

// A thread's share: pieces of 16 bytes, one in every kKeyRows-th row of k and q and every kValueRows-th of v and y.
// Pointers are to bytes and walk from chunk to chunk: this warpgroup's arithmetic competes with the computing ones'.
template <int kGroups>
class Mover {
 public:
  __device__ Mover(const DeltaNetArgs& args, Shared<kGroups>& s, const Place& place)
      : args_(args), s_(s), place_(place) {
    const std::int64_t key_offset =
        (std::int64_t{place.first + key_row_} * args.key_heads + place.key_head) * kTokenBytes + key_piece_ * 16;
    const int in_head = place.first_value * 2 + value_piece_ * 16;
    const std::int64_t value_offset =
        (std::int64_t{place.first + value_row_} * args.value_heads + place.head) * kTokenBytes + in_head;
    k_ = reinterpret_cast<const char*>(args.k) + key_offset;
    q_ = reinterpret_cast<const char*>(args.q) + key_offset;
    v_ = reinterpret_cast<const char*>(args.v) + value_offset;
    y_ = reinterpret_cast<char*>(args.y) + value_offset -
         std::int64_t{place.sequence + 1} * args.prefix_tokens * args.value_heads * kTokenBytes;
    key_step_ = std::int64_t{args.key_heads} * kKeyRows * kTokenBytes;
    value_step_ = std::int64_t{args.value_heads} * kValueRows * kTokenBytes;
    record_ = static_cast<const ChunkRecord*>(args.workspace) +
              std::int64_t{first_slot(place.first, place.sequence)} * args.value_heads + place.head;
  }

  __device__ void run() {
    // A group of copies a chunk, empty past the last, so that the counts in copy_async_wait hold.
    for (int chunk = 0; chunk < kAhead; ++chunk) {
      if (chunk < place_.chunks) load(chunk);
      copy_async_commit();
    }
    copy_async_wait<kAhead - 1>();
    announce(0);
#pragma unroll 1
    for (int chunk = 0; chunk <= place_.chunks; ++chunk) {
      const int next = chunk + kAhead;
      if (next < place_.chunks) {
        if (next >= kStages) barrier_wait(s_.used[next % kStages], next / kStages - 1);
        load(next);
      }
      copy_async_commit();
      copy_async_wait<kAhead - 1>();
      if (chunk + 1 < place_.chunks) announce(chunk + 1);
      if (chunk > 0) store(chunk - 1);
    }
    if (overflowed_) args_.overflow[place_.sequence] = 1;
  }

 private:
  static constexpr int kTokenBytes = kDeltaNetHeadDim * 2;  // of a head
  static constexpr int kValueLanes = kGroups * kGroupValues / kFeaturesPerLane;
  static constexpr int kValueRows = kGroupThreads / kValueLanes;
  static constexpr int kValuePieces = kChunk / kValueRows;

  __device__ void announce(int chunk) {
    fence_shared_for_async();
    barrier_arrive(s_.loaded[chunk % kStages]);
  }

  // Chunks are loaded in order.
  __device__ void load(int chunk) {
    Stage<kGroups>& stage = s_.stages[chunk % kStages];
    const int tokens = place_.tokens - chunk * kChunk;
    std::uint32_t to_keys = shared_address(&stage) + tile_offset(key_row_, key_piece_);
    std::uint32_t to_values = shared_address(stage.v) + tile_offset(value_row_, value_piece_);
    if (tokens >= kChunk) {
#pragma unroll
      for (int i = 0; i < kKeyPieces; ++i) {
        copy_async_16(to_keys, k_, true);
        copy_async_16(to_keys + kTileBytes, q_, true);
        to_keys += kKeyRows * kRowBytes;
        k_ += key_step_, q_ += key_step_;
      }
#pragma unroll
      for (int i = 0; i < kValuePieces; ++i) {
        copy_async_16(to_values, v_, true);
        to_values += kValueRows * kRowBytes;
        v_ += value_step_;
      }
    } else {
      // Rows past the end are zeros: in memory they belong to a neighbour, or to nobody.
#pragma unroll 1
      for (int row = key_row_; row < kChunk; row += kKeyRows) {
        const bool present = row < tokens;
        copy_async_16(to_keys, present ? k_ : static_cast<const void*>(args_.k), present);
        copy_async_16(to_keys + kTileBytes, present ? q_ : static_cast<const void*>(args_.q), present);
        to_keys += kKeyRows * kRowBytes;
        k_ += key_step_, q_ += key_step_;
      }
#pragma unroll 1
      for (int row = value_row_; row < kChunk; row += kValueRows) {
        const bool present = row < tokens;
        copy_async_16(to_values, present ? v_ : static_cast<const void*>(args_.v), present);
        to_values += kValueRows * kRowBytes;
        v_ += value_step_;
      }
    }
    if (threadIdx.x % kGroupThreads == 0) {
      const std::uint32_t barrier = shared_address(&s_.loaded[chunk % kStages]);
      asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "n"(sizeof(ChunkRecord))
                   : "memory");
      bulk_load(&stage.record, record_, sizeof(ChunkRecord), s_.loaded[chunk % kStages]);
    }
    record_ += args_.value_heads;
  }

  __device__ void store(int chunk) {
    const int tokens = place_.tokens - chunk * kChunk, known = args_.prefix_tokens - chunk * kChunk;
    const unsigned char* from = s_.outputs + tile_offset(value_row_, value_piece_);
    barrier_wait(s_.written, chunk);
    uint4 bits[kValuePieces];
#pragma unroll
    for (int i = 0; i < kValuePieces; ++i) bits[i] = *reinterpret_cast<const uint4*>(from + i * kValueRows * kRowBytes);
    barrier_arrive(s_.stored);
#pragma unroll
    for (int i = 0; i < kValuePieces; ++i) {
      if (args_.overflow != nullptr) overflowed_ |= saturate(bits[i]);  // rows past the end are zeros
      const int row = i * kValueRows + value_row_;
      if (row >= known && row < tokens) *reinterpret_cast<uint4*>(y_) = bits[i];
      y_ += value_step_;
    }
  }

  const DeltaNetArgs& args_;
  Shared<kGroups>& s_;
  const Place& place_;
  const int key_piece_ = static_cast<int>(threadIdx.x) % kKeyLanes;
  const int key_row_ = static_cast<int>(threadIdx.x) % kGroupThreads / kKeyLanes;
  const int value_piece_ = static_cast<int>(threadIdx.x) % kValueLanes;
  const int value_row_ = static_cast<int>(threadIdx.x) % kGroupThreads / kValueLanes;
  const char *k_, *q_, *v_;
  char* y_;
  std::int64_t key_step_, value_step_;
  const ChunkRecord* record_;
  bool overflowed_ = false;
};

// --- The computing warpgroups ---

// Columns 16 * step to 16 * step + 15 of d, rounded, as the A operand of a product.
template <int kSize>
__device__ __forceinline__ void operand(const float (&d)[kSize], int step, std::uint32_t (&a)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = pack_halves(d[8 * step + 2 * i], d[8 * step + 2 * i + 1]);
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
template <int kGroups>
__device__ void compute(Shared<kGroups>& s, const Place& place, int group) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4, lane = static_cast<int>(threadIdx.x) % 32;
  // In a panel [64 tokens, 64 values] of V or of the outputs: where this lane points when the warp moves [16, 16].
  const std::uint32_t panel_lane =
      static_cast<std::uint32_t>(group * kPanelBytes) + panel_offset(lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2);
  const int column = lane % 4 * 2;  // and the next, of each eight
  float state[64] = {};
  for (int chunk = 0; chunk < place.chunks; ++chunk) {
    const Stage<kGroups>& stage = s.stages[chunk % kStages];
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
      load_matrices_transposed(values[step], v + panel_lane + static_cast<std::uint32_t>(16 * step * kRowBytes));
    }
    wgmma_wait<1>();
    pin(x);
    std::uint32_t r[4][4];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int tile = 2 * step + half;
        const float4 gates = *reinterpret_cast<const float4*>(record.value_gates[4 * tile + column / 2]);
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const float2 value = unpack_halves(values[step][2 * half + row]);
          r[step][2 * half + row] = pack_halves(__fmaf_rn(gates.z, x[4 * tile + 2 * row], gates.x * value.x),
                                                __fmaf_rn(gates.w, x[4 * tile + 2 * row + 1], gates.y * value.y));
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
    // Every lane for itself: racecheck holds an arrival to order the reads of the thread that arrives, and no others
    // that came to it through __syncwarp. Last, as nobody waits for it: what is loaded here next is three chunks away.
    barrier_arrive(s.used[chunk % kStages]);
  }
}

template <int kGroups>
__device__ __forceinline__ void scan(const DeltaNetArgs& args) {
  constexpr int kBlocksPerHead = kDeltaNetHeadDim / (kGroups * kGroupValues);
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& s = *reinterpret_cast<Shared<kGroups>*>(memory);
  Place place;
  place.head = static_cast<int>(blockIdx.x) / kBlocksPerHead;
  place.first_value = static_cast<int>(blockIdx.x) % kBlocksPerHead * kGroupValues;
  place.key_head = place.head / (args.value_heads / args.key_heads);
  place.sequence = static_cast<int>(blockIdx.y);
  place.first = __ldg(args.cu_seqlens + place.sequence);
  place.tokens = __ldg(args.cu_seqlens + place.sequence + 1) - place.first;
  place.chunks = (place.tokens + kChunk - 1) / kChunk;
  if (threadIdx.x == 0) {
    constexpr int kComputeThreads = kGroups * kGroupThreads;
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(s.loaded[stage], kGroupThreads);
      barrier_init(s.used[stage], kComputeThreads);
    }
    barrier_init(s.written, kComputeThreads / 32);
    barrier_init(s.stored, kGroupThreads);
    barrier_init_done();
  }
  __syncthreads();
  wait_for_inputs();  // what was uploaded for the pass is read before
  if (place.chunks <= 0) return;
  const int group = static_cast<int>(threadIdx.x) / kGroupThreads;
  if (group == 0) {
    if constexpr (kGroups == 2) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kMoveRegisters));
    Mover<kGroups>(args, s, place).run();
  } else {
    if constexpr (kGroups == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kComputeRegisters));
    compute<kGroups>(s, place, group - 1);
  }
}

template <int kGroups>
__global__ void __launch_bounds__((1 + kGroups) * kGroupThreads, 1)
    delta_net_scan_kernel(const __grid_constant__ DeltaNetArgs args) {
  let_next_start();
  if (kHasWarpgroupProducts) {
    scan<kGroups>(args);
  } else {
    __trap();  // the launcher does not choose it
  }
}

template <int kGroups>
cudaError_t launch(const DeltaNetArgs& args, cudaStream_t stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<kGroups>));
  const auto kernel = delta_net_scan_kernel<kGroups>;
  if (const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
      status != cudaSuccess) {
    return status;
  }
  const dim3 grid(static_cast<unsigned>(args.value_heads * (2 / kGroups)), static_cast<unsigned>(args.sequences));
  return Launch(grid, (1 + kGroups) * kGroupThreads, kBytes, stream).run(kernel, args);
}

}  // namespace

cudaError_t launch_delta_net_scan(const DeltaNetArgs& args, bool halves, cudaStream_t stream) {
  return halves ? launch<1>(args, stream) : launch<2>(args, stream);
}

}  // namespace clef::cuda
