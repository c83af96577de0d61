// The matrix product for Hopper: wgmma fed by the copy engine. What is here is compiled into product_sm90.cu.
// Arithmetic: FP16 operands, one f32 accumulator an output, depth ascending in steps of 16; padding is zeros. Or E4M3
//             operands in steps of 32.
// Schedule:   a block a multiprocessor walks tiles of 128 to 256 rows by 96 to 256 columns (E4M3 also 64 by 32 to
//             192), whichever fills the last round best and reads least; or the last two rounds' tiles are shared out
//             evenly. One thread fetches through a ring of stages, one to three warpgroups multiply, 64 rows each or
//             twice as many. Blocks of a cluster share what they read: those
//             in one column the weights' tile, those in one row the input's, each fetching a part for all. Tiles that
//             run together lie in a square of the output, so that the second-level cache serves their rows and columns.
//             For few rows tiles are turned: 128 or 192 weights by 64 to 192 of the input's rows.
// Bound:      the tensor cores, for many rows at the clock that the card's power allows; for few rows, what the
//             second-level cache can send to the multiprocessors. The thread that fetches, and the instructions between
//             two steps' products, must stay below a step's time, which of a small tile is 350 cycles.
#pragma once

#include "backend/cuda/launch.h"
#include "backend/cuda/product_fetch.cuh"
#include "backend/cuda/product_finish.cuh"
#include "backend/cuda/product_turned.cuh"
#include "backend/cuda/product_walk.cuh"
#include "backend/cuda/product_wgmma.cuh"

namespace clef::cuda {
namespace {

__device__ __forceinline__ std::uint32_t of_first_lane(std::uint32_t value) {
  return __shfl_sync(0xffffffffU, value, 0);
}
__device__ __forceinline__ int cluster_rank() {
  int rank;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// The place of shared memory that lies in block `rank` of the cluster where `shared` lies here.
__device__ __forceinline__ std::uint32_t address_at(std::uint32_t shared, int rank) {
  std::uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared), "r"(rank));
  return there;
}
// Arrives at another block's barrier. Nothing that was written must be seen there, so the arrival orders nothing: a
// release in the cluster's scope waits for the thread's stores, a microsecond a stage.
__device__ __forceinline__ void barrier_arrive_there(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Tells those who fetch for this block that a stage is free again: the blocks of its row and of its column, one thread
// each.
template <typename S>
struct Release {
  std::uint32_t barrier = 0;  // the first stage's that this thread arrives at, or none; odd: another block's

  __device__ Release(const Params& params, const Ring<S>& ring, Rank rank, int thread) {
    const int rows = params.cluster_rows, columns = params.cluster_columns;
    if (thread >= columns + rows - 1) return;
    const int own = rank.row * columns + rank.column;
    const int at = thread < columns ? rank.row * columns + thread : (1 - rank.row) * columns + rank.column;
    barrier = at == own ? ring.empty : address_at(ring.empty, at) + 1;
  }
  __device__ void run(int stage) const {
    const std::uint32_t at = barrier + static_cast<std::uint32_t>(8 * stage);
    if (barrier == 0) return;
    (barrier & 1) == 0 ? barrier_arrive(at) : barrier_arrive_there(at - 1);
  }
};

// A warpgroup's sums on their way to the cluster that goes on with them: a lane's own, so that words follow words.
template <typename S>
struct Relay {
  using Sums = float[S::kStack][S::kColumns / 2];
  static constexpr int kOfBlock = S::kColumns / 8, kWords = S::kStack * kOfBlock;
  float4* words;
  unsigned* mark;
  unsigned launch;
  int thread, worker;
  // From cluster `from` to the next, block by block and warpgroup by warpgroup.
  __device__ Relay(const Params& params, int from, Rank rank, int worker_)
      : launch(params.launch), thread(static_cast<int>(threadIdx.x) % kWarpgroup), worker(worker_) {
    const int block = (from * params.cluster_rows + rank.row) * params.cluster_columns + rank.column;
    const int slot = block * S::kWorkers + worker;
    words = reinterpret_cast<float4*>(params.partial) + static_cast<std::int64_t>(slot) * kWords * kWarpgroup;
    mark = params.marks + slot;
  }
  __device__ void sync() const { asm volatile("bar.sync %0, %1;" ::"r"(worker + 1), "n"(kWarpgroup) : "memory"); }
  __device__ void give(const Sums& sum) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const float* four = sum[i / kOfBlock] + 4 * (i % kOfBlock);
      __stcg(words + i * kWarpgroup + thread, make_float4(four[0], four[1], four[2], four[3]));
    }
    sync();
    if (thread == 0) {
      __threadfence();
      asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(mark), "r"(launch) : "memory");
    }
  }
  __device__ void take(Sums& sum) const {
    if (thread == 0) {
      unsigned seen;
      do {
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(mark) : "memory");
      } while (seen != launch);
      __threadfence();
    }
    sync();
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const float4 four = __ldcg(words + i * kWarpgroup + thread);
      float* to = sum[i / kOfBlock] + 4 * (i % kOfBlock);
      to[0] = four.x;
      to[1] = four.y;
      to[2] = four.z;
      to[3] = four.w;
    }
  }
};

template <typename S, bool kF32>
__device__ void work(const Params& params, Ring<S> ring, int worker, Rank rank, Walk walk) {
  constexpr auto kBlockUnits = static_cast<std::uint32_t>(64 * kChunkRowBytes / 16);  // of a descriptor
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  const Release<S> release(params, ring, rank, thread);
  const std::uint32_t a_first = descriptor(ring.tiles) + static_cast<std::uint32_t>(worker * S::kStack) * kBlockUnits;
  const std::uint32_t b_first = descriptor(ring.tiles + S::kRowBytes);
  wait_for_inputs();
  for (; walk.has_piece(); walk.advance()) {
    const Piece piece = walk.piece();
    if (piece.is_empty()) continue;
    const Place place = place_of<S>(params, piece.tile, rank);
    float sum[S::kStack][S::kColumns / 2];
    const auto pin_all = [&] {
#pragma unroll
      for (auto& of_block : sum) pin(of_block);
    };
    // Nothing is pending here; the assembler must be told, or it waits for each wgmma that follows (C7515).
    wgmma_wait<0>();
    if (!piece.begins()) Relay<S>(params, walk.cluster - 1, rank, worker).take(sum);
#pragma unroll 1
    for (int step = piece.first; step < piece.end; ++step) {
      barrier_wait(ring.full_at(), ring.parity);
      const auto stage_at = static_cast<std::uint32_t>(ring.stage * (S::kStageBytes / 16));
      const std::uint32_t a = a_first + stage_at, b = b_first + stage_at;
      pin_all();
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < kTileDepth / 16; ++k) {
        const std::uint32_t b_at = b + static_cast<std::uint32_t>(2 * k);
#pragma unroll
        for (int block = 0; block < S::kStack; ++block) {
          const std::uint32_t a_at =
              a + static_cast<std::uint32_t>(block) * kBlockUnits + static_cast<std::uint32_t>(2 * k);
          if constexpr (S::kIsE4m3) {
            low_product_step(sum[block], a_at, b_at, step > 0 || k > 0);
          } else {
            product_step(sum[block], a_at, b_at, step > 0 || k > 0);
          }
        }
      }
      wgmma_commit();
      wgmma_wait<1>();  // the step before is done: its stage may be filled again
      pin_all();
      if (step > piece.first) release.run(ring.stage_before());
      ring.advance();
    }
    wgmma_wait<0>();
    pin_all();
    release.run(ring.stage_before());
    if (!piece.ends()) {
      Relay<S>(params, walk.cluster, rank, worker).give(sum);
      continue;
    }
#pragma unroll
    for (int block = 0; block < S::kStack; ++block) {
      if constexpr (S::kTurned) {
        finish_turned<S, kF32>(params, place, worker * S::kStack + block, thread, sum[block]);
      } else {
        finish_tile<S, kF32>(params, place, worker * S::kStack + block, thread, sum[block]);
      }
    }
  }
}

template <typename S, bool kF32>
__global__ void __launch_bounds__(S::kThreads, 1) product(const __grid_constant__ Params params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ std::uint8_t memory[];
  let_next_start();
  // What all lanes of a warp have from its first is known to be the same for all, and kept: a step then needs few
  // instructions beside its products, whose start they would delay.
  const std::uint32_t base = of_first_lane(shared_address(memory));
  Ring<S> ring;
  ring.tiles = (base + 1023) / 1024 * 1024;
  ring.full = ring.tiles + S::kStages * S::kStageBytes;
  ring.empty = ring.full + 8 * S::kStages;
  const int cluster = params.cluster_rows * params.cluster_columns;
  Rank rank;
  if (cluster > 1) rank = {cluster_rank() / params.cluster_columns, cluster_rank() % params.cluster_columns};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < S::kStages; ++stage) {
      barrier_init(ring.full + static_cast<std::uint32_t>(8 * stage), 1);
      barrier_init(ring.empty + static_cast<std::uint32_t>(8 * stage),
                   S::kWorkers * (params.cluster_rows + params.cluster_columns - 1));
    }
    barrier_init_done();
    prefetch_map(&params.x);
    prefetch_map(&params.w);
  }
  if (cluster > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  const Walk walk{static_cast<int>(blockIdx.x) / cluster, static_cast<int>(gridDim.x) / cluster,
                  params.row_tiles * params.column_tiles, params.whole_rounds, params.planes * params.plane_steps};
  const int group = static_cast<int>(of_first_lane(threadIdx.x / kWarpgroup));
  if (group == 0) {
    if constexpr (S::kMovesRegisters) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::kFetchRegisters));
    if (threadIdx.x < kWarpSize) {
      fetch<S>(params, ring, rank, walk);
      __syncwarp();
    }
  } else {
    if constexpr (S::kMovesRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::kWorkRegisters));
    work<S, kF32>(params, ring, group - 1, rank, walk);
  }
  // A block whose neighbour may still write to it or arrive at its barriers must stay.
  if (cluster > 1) cluster_sync();
#else
  __trap();  // built for another architecture than sm_90a
#endif
}

}  // namespace
}  // namespace clef::cuda
