// The matrix product for Hopper: wgmma fed by the copy engine. What is here is compiled into product_sm90.cu.
// Arithmetic: FP16 operands, one f32 accumulator an output, depth ascending in steps of 16; padding is zeros. Or E4M3
//             operands in steps of 32.
// Schedule:   a block a multiprocessor walks tiles of 128 or 192 rows by 96 to 256 columns, whichever fills the last
//             round best; or the last two rounds' tiles are shared out evenly. One warpgroup fetches through a ring of
//             stages, two or three multiply, 64 rows each. Blocks of a cluster share what they read: those in one
//             column the weights' tile, those in one row the input's, each fetching a part for all. Tiles that run
//             together lie in a square of the output, so that the second-level cache serves their rows and columns.
// Bound:      the tensor cores; for few rows, what the second-level cache can send to the multiprocessors.
#pragma once

#include <cuda.h>

#include <algorithm>

#include "backend/cuda/launch.h"
#include "backend/cuda/product_finish.cuh"
#include "backend/cuda/product_sm90.h"
#include "backend/cuda/product_walk.cuh"
#include "backend/cuda/product_wgmma.cuh"

namespace clef::cuda {
namespace {

constexpr int kTileDepth = kChunk;  // 64: one swizzled row; of E4M3 twice as many, the same bytes
constexpr int kGroupRows = 16;      // row tiles taken together, times all columns in turn
constexpr int kSharedBytes = 227 * 1024;

struct Params {
  CUtensorMap x, w, w_up;
  const int* to_rows;      // [rows] or none
  const int* places;       // [rows] or none
  const __half* low_sums;  // [precise rows, 2 * columns]
  __half* remainder;       // [precise rows, columns]
  void* y;
  std::int64_t y_stride;
  float* gates;  // of the weights past `columns`, or none
  std::int64_t gates_stride;
  const float *row_scale, *bias;
  int rows, columns;  // of y
  int gate_columns;
  int plane_steps, planes;            // steps of the depth of one plane
  int cluster_rows, cluster_columns;  // blocks of a cluster; rank = row * cluster_columns + column
  int row_tiles, column_tiles;        // of clusters
  int own_column_tiles;               // of blocks, before those of the gates
  int whole_rounds;                   // in which each cluster takes a tile of its own; what is left is shared
  float* partial;                     // sums of tiles that are handed on, or none
  unsigned* marks;                    // `launch` where one is there
  unsigned launch;
  float alpha;
  bool add;      // to the y that is there
  bool gelu;     // the tanh form
  bool grouped;  // the weights' rows come in an order in which a lane's sums lie side by side in y
};

// What is multiplied, and how tiles look.
template <int kColumnsOf, bool kPairOf, int kWorkersOf, bool kIsE4m3Of = false>
struct Shape {
  static constexpr bool kIsE4m3 = kIsE4m3Of;
  static constexpr int kStepDepth = kIsE4m3 ? 2 * kTileDepth : kTileDepth;
  static constexpr int kColumns = kColumnsOf;  // rows of the weights' tile; with a pair half of them are the gate's
  static constexpr bool kPair = kPairOf;
  static constexpr int kWorkers = kWorkersOf;  // warpgroups that multiply, 64 rows each
  static constexpr int kRows = 64 * kWorkers;
  static constexpr int kThreads = (1 + kWorkers) * kWarpgroup;
  // Of 65,536 registers a multiprocessor; setmaxnreg counts in eights.
  static constexpr int kFetchRegisters = kWorkers == 2 ? 40 : 32, kWorkRegisters = kWorkers == 2 ? 232 : 160;
  static constexpr int kOutColumns = kPair ? kColumns / 2 : kColumns;
  static constexpr int kRowBytes = kRows * kChunkRowBytes;
  static constexpr int kColumnBytes = kColumns * kChunkRowBytes;
  static constexpr int kStageBytes = kRowBytes + kColumnBytes;
  static constexpr int kStages = std::min(8, (kSharedBytes - 2048) / kStageBytes);
  static constexpr int kLead = 2;  // steps from the start of one warpgroup to that of the next
  static constexpr int kBytes = kStages * kStageBytes + 1024 + 256;
  static_assert(kStageBytes % kAtomBytes == 0 && kColumns / 2 * kChunkRowBytes % kAtomBytes == 0);
};

struct Place {
  int row;         // of the tile's first output
  int column;      // in y, or in the gates
  int weight_row;  // of the tile's first weight
  bool is_gates;
};

// Where a block stands in its cluster.
struct Rank {
  int row = 0, column = 0;
};

// The block's own tile of the walk's cluster of tiles `index`.
template <typename S>
__device__ Place place_of(const Params& params, int index, Rank rank) {
  const int of_group = kGroupRows * params.column_tiles;
  const int group = index / of_group, in_group = index % of_group;
  const int height = min(kGroupRows, params.row_tiles - group * kGroupRows);
  const int row_tile = group * kGroupRows + in_group % height;
  const int column_tile = in_group / height * params.cluster_columns + rank.column;
  Place place;
  place.row = (row_tile * params.cluster_rows + rank.row) * S::kRows;
  place.is_gates = params.gate_columns > 0 && column_tile >= params.own_column_tiles;
  place.column = (place.is_gates ? column_tile - params.own_column_tiles : column_tile) * S::kOutColumns;
  place.weight_row = place.column + (place.is_gates ? params.columns : 0);
  return place;
}

__device__ __forceinline__ int cluster_rank() {
  int rank;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// Arrives at the barrier that lies at the same place in block `rank` of the cluster. Nothing that was written must be
// seen there, so the arrival orders nothing: a release in the cluster's scope waits for the thread's stores, a
// microsecond a stage.
__device__ __forceinline__ void barrier_arrive_at(std::uint32_t barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
__device__ __forceinline__ void copy_tile(std::uint32_t shared, const CUtensorMap* map, std::uint32_t barrier, int x,
                                          int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
// To the same place of the cluster's blocks in `mask`, whose barriers at the same place count it.
__device__ __forceinline__ void copy_tile_to(std::uint16_t mask, std::uint32_t shared, const CUtensorMap* map,
                                             std::uint32_t barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4}], [%2], %5;" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(mask)
      : "memory");
}

// A box of 16-row groups: rows 4 q + 2 i + e of a group come to lie at 8 i + 2 q + e, which puts the four sums that a
// lane has of sixteen columns side by side in y.
__device__ void copy_groups(std::uint32_t shared, const CUtensorMap* map, std::uint32_t barrier, int x, int group) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %5, %5, %5, "
      "%4}], [%2];" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(group), "r"(0)
      : "memory");
}
__device__ void copy_groups_to(std::uint16_t mask, std::uint32_t shared, const CUtensorMap* map, std::uint32_t barrier,
                               int x, int group) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %6, %6, %6, %4}], [%2], %5;" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(group), "h"(mask), "r"(0)
      : "memory");
}

template <typename S>
struct Ring {
  std::uint32_t tiles, full, empty, ahead;  // addresses
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ std::uint32_t rows_at() const { return tiles + static_cast<std::uint32_t>(stage * S::kStageBytes); }
  __device__ std::uint32_t columns_at() const { return rows_at() + S::kRowBytes; }
  __device__ std::uint32_t full_at() const { return full + static_cast<std::uint32_t>(8 * stage); }
  __device__ std::uint32_t empty_at() const { return empty + static_cast<std::uint32_t>(8 * stage); }
  __device__ void advance() {
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// By one warp.
template <typename S>
__device__ void fetch(const Params& params, Ring<S> ring, Rank rank, Walk walk) {
  constexpr int kHalf = S::kColumns / 2;
  const int rows = params.cluster_rows, columns = params.cluster_columns;
  // The input's tile goes to the blocks of this row, the weights' to those of this column.
  const auto row_mask = static_cast<std::uint16_t>(((1 << columns) - 1) << (rank.row * columns));
  const auto column_mask =
      static_cast<std::uint16_t>((1 << rank.column) | (rows == 2 ? 1 << (columns + rank.column) : 0));
  const int slice = S::kRows / columns;  // of the input's rows, this block's to fetch
  const bool fetches = threadIdx.x == 0;
  // The weights' tile has two halves: of a pair the gate's rows and the other's, else the first rows and the rest.
  const auto fetch_weights = [&](const Place& place, int step) {
    const int depth = (step < params.plane_steps ? step : step - params.plane_steps) * S::kStepDepth;
    const CUtensorMap *first_map = &params.w, *second_map = S::kPair ? &params.w_up : &params.w;
    const int second_row = S::kPair ? place.weight_row : place.weight_row + kHalf;
    const std::uint32_t full = ring.full_at(), second_at = ring.columns_at() + kHalf * kChunkRowBytes;
    if (rows == 1) {
      if (params.grouped) {
        copy_groups(ring.columns_at(), first_map, full, depth, place.weight_row / kGroup);
        copy_groups(second_at, second_map, full, depth, second_row / kGroup);
      } else {
        copy_tile(ring.columns_at(), first_map, full, depth, place.weight_row);
        copy_tile(second_at, second_map, full, depth, second_row);
      }
    } else {
      const CUtensorMap* map = rank.row == 0 ? first_map : second_map;
      const std::uint32_t to = rank.row == 0 ? ring.columns_at() : second_at;
      const int row = rank.row == 0 ? place.weight_row : second_row;
      if (params.grouped) {
        copy_groups_to(column_mask, to, map, full, depth, row / kGroup);
      } else {
        copy_tile_to(column_mask, to, map, full, depth, row);
      }
    }
  };
  const auto fetch_input = [&](const Place& place, int step) {
    const int depth = step * S::kStepDepth;
    if (columns == 1) {
      copy_tile(ring.rows_at(), &params.x, ring.full_at(), depth, place.row);
    } else {
      copy_tile_to(row_mask, ring.rows_at() + static_cast<std::uint32_t>(rank.column * slice * kChunkRowBytes),
                   &params.x, ring.full_at(), depth, place.row + rank.column * slice);
    }
  };
  // Weights do not depend on the kernel before, so the first stages' are on their way while it ends.
  Piece piece;
  while (walk.has_piece() && (piece = walk.piece()).is_empty()) walk.advance();
  int early = walk.has_piece() ? min(S::kStages, piece.end - piece.first) : 0;
  const Place first_place = place_of<S>(params, piece.tile, rank);
  const Ring<S> start = ring;
  for (int step = 0; fetches && step < early; ++step, ring.advance()) {
    barrier_arrive_expecting(ring.full_at(), S::kStageBytes);
    fetch_weights(first_place, piece.first + step);
  }
  ring = start;
  __syncwarp();
  wait_for_inputs();
  for (; walk.has_piece(); walk.advance()) {
    piece = walk.piece();
    const Place place = place_of<S>(params, piece.tile, rank);
    if (fetches) {
      for (int step = piece.first; step < piece.end; ++step, ring.advance()) {
        if (early > 0) {
          --early;
        } else {
          barrier_wait(ring.empty_at(), ring.parity ^ 1);
          barrier_arrive_expecting(ring.full_at(), S::kStageBytes);
          fetch_weights(place, step);
        }
        fetch_input(place, step);
      }
    }
    __syncwarp();
  }
}

// Tells those who fetch for this block that a stage is free again: the blocks of its row and of its column, one thread
// each.
template <typename S>
__device__ __forceinline__ void release(const Params& params, const Ring<S>& ring, Rank rank, int stage, int thread) {
  const std::uint32_t barrier = ring.empty + static_cast<std::uint32_t>(8 * stage);
  const int rows = params.cluster_rows, columns = params.cluster_columns;
  if (rows * columns == 1) {
    if (thread == 0) barrier_arrive(barrier);
  } else if (thread < columns) {
    barrier_arrive_at(barrier, rank.row * columns + thread);
  } else if (thread < columns + rows - 1) {
    barrier_arrive_at(barrier, (1 - rank.row) * columns + rank.column);
  }
}

// A warpgroup's sums on their way to the cluster that goes on with them: a lane's own, so that words follow words.
template <typename S>
struct Relay {
  float4* words;
  unsigned* mark;
  unsigned launch;
  int thread, worker;
  // From cluster `from` to the next, block by block and warpgroup by warpgroup.
  __device__ Relay(const Params& params, int from, Rank rank, int worker_)
      : launch(params.launch), thread(static_cast<int>(threadIdx.x) % kWarpgroup), worker(worker_) {
    const int block = (from * params.cluster_rows + rank.row) * params.cluster_columns + rank.column;
    const int slot = block * S::kWorkers + worker;
    words =
        reinterpret_cast<float4*>(params.partial) + static_cast<std::int64_t>(slot) * (S::kColumns / 8) * kWarpgroup;
    mark = params.marks + slot;
  }
  __device__ void sync() const { asm volatile("bar.sync %0, %1;" ::"r"(worker + 1), "n"(kWarpgroup) : "memory"); }
  __device__ void give(const float (&sum)[S::kColumns / 2]) const {
#pragma unroll
    for (int i = 0; i < S::kColumns / 8; ++i) {
      __stcg(words + i * kWarpgroup + thread, make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]));
    }
    sync();
    if (thread == 0) {
      __threadfence();
      asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(mark), "r"(launch) : "memory");
    }
  }
  __device__ void take(float (&sum)[S::kColumns / 2]) const {
    if (thread == 0) {
      unsigned seen;
      do {
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(mark) : "memory");
      } while (seen != launch);
      __threadfence();
    }
    sync();
#pragma unroll
    for (int i = 0; i < S::kColumns / 8; ++i) {
      const float4 four = __ldcg(words + i * kWarpgroup + thread);
      sum[4 * i] = four.x;
      sum[4 * i + 1] = four.y;
      sum[4 * i + 2] = four.z;
      sum[4 * i + 3] = four.w;
    }
  }
};

template <typename S, bool kF32>
__device__ void work(const Params& params, Ring<S> ring, int worker, Rank rank, Walk walk) {
  constexpr int kCount = S::kColumns / 2;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  wait_for_inputs();
  // The warpgroups start a few steps after each other and keep the distance, so that one multiplies while another
  // stores.
  bool leads = worker + 1 < S::kWorkers, follows = worker > 0;
  for (; walk.has_piece(); walk.advance()) {
    const Piece piece = walk.piece();
    if (piece.is_empty()) continue;
    const Place place = place_of<S>(params, piece.tile, rank);
    if (follows) barrier_wait(ring.ahead + static_cast<std::uint32_t>(8 * (worker - 1)), 0);
    follows = false;
    const int lead =
        leads ? min(piece.first + S::kLead, piece.end) - 1 : -1;  // the step after which the next one starts
    leads = false;
    const int row = place.row + worker * 64 + thread / kWarpSize * 16 + thread % kWarpSize / 4;
    float sum[kCount];
    // Nothing is pending here; the assembler must be told, or it waits for each wgmma that follows (C7515).
    wgmma_wait<0>();
    if (!piece.begins()) Relay<S>(params, walk.cluster - 1, rank, worker).take(sum);
    int previous = -1;
#pragma unroll 1
    for (int step = piece.first; step < piece.end; ++step) {
      barrier_wait(ring.full_at(), ring.parity);
      const std::uint32_t a = descriptor(ring.rows_at() + static_cast<std::uint32_t>(worker * 64 * kChunkRowBytes));
      const std::uint32_t b = descriptor(ring.columns_at());
      pin(sum);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < kTileDepth / 16; ++k) {
        const std::uint32_t a_at = a + static_cast<std::uint32_t>(2 * k), b_at = b + static_cast<std::uint32_t>(2 * k);
        if constexpr (S::kIsE4m3) {
          low_product_step(sum, a_at, b_at, step > 0 || k > 0);
        } else {
          product_step(sum, a_at, b_at, step > 0 || k > 0);
        }
      }
      wgmma_commit();
      wgmma_wait<1>();  // the step before is done: its stage may be filled again
      pin(sum);
      if (previous >= 0) release(params, ring, rank, previous, thread);
      if (step == lead && thread == 0) {
        barrier_arrive(ring.ahead + static_cast<std::uint32_t>(8 * worker));
      }
      previous = ring.stage;
      ring.advance();
    }
    wgmma_wait<0>();
    pin(sum);
    release(params, ring, rank, previous, thread);
    if (!piece.ends()) {
      Relay<S>(params, walk.cluster, rank, worker).give(sum);
      continue;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + 8 * half;
      const float scale = params.alpha * (params.row_scale == nullptr || r >= params.rows ? 1.0F : params.row_scale[r]);
#pragma unroll
      for (int i = 2 * half; i < kCount; i += 4) {
        sum[i] *= scale;
        sum[i + 1] *= scale;
      }
    }
    const auto of_row = [&](const int* numbers, int r, int none) {
      return r >= params.rows ? -1 : numbers == nullptr ? none : numbers[r];
    };
    const Finish<S::kOutColumns> finish{
        params.y,       params.y_stride, {of_row(params.to_rows, row, row), of_row(params.to_rows, row + 8, row + 8)},
        params.columns, place.column,    params.grouped,
        params.add};
    if constexpr (S::kPair) {
      const auto precise_place = [&](int r) { return params.low_sums == nullptr ? -1 : of_row(params.places, r, r); };
      const int places[2] = {precise_place(row), precise_place(row + 8)};
      const bool is_precise = places[0] >= 0 || places[1] >= 0;
      if (is_precise) finish.add_low_sums(params.low_sums, places, sum);
      float out[kCount / 2];
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) out[i] = silu_of(sum[i]) * sum[i + kCount / 2];
      kF32 ? finish.store_f32(out) : finish.store_f16(out);
      if (!kF32 && is_precise) {
#pragma unroll
        for (float& value : out) value = (value - __half2float(__float2half_rn(value))) * kRemainderScale;
        Finish<S::kOutColumns>{params.remainder, params.columns, {places[0], places[1]}, params.columns, place.column,
                               params.grouped,   false}
            .store_f16(out);
      }
    } else if (place.is_gates) {
      Finish<S::kOutColumns>{params.gates,        params.gates_stride, {finish.rows[0], finish.rows[1]},
                             params.gate_columns, place.column,        params.grouped,
                             params.add}
          .store_f32(sum);
    } else {
      if (params.bias != nullptr) finish.add_bias(params.bias, sum);
      if (!kF32 && params.gelu) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) sum[i] = gelu_tanh_of(sum[i]);
      }
      kF32 ? finish.store_f32(sum) : finish.store_f16(sum);
    }
  }
}

template <typename S, bool kF32>
__global__ void __launch_bounds__(S::kThreads, 1) product(const __grid_constant__ Params params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ std::uint8_t memory[];
  let_next_start();
  const std::uint32_t base = shared_address(memory);
  Ring<S> ring;
  ring.tiles = (base + 1023) / 1024 * 1024;
  ring.full = ring.tiles + S::kStages * S::kStageBytes;
  ring.empty = ring.full + 8 * S::kStages;
  ring.ahead = ring.empty + 8 * S::kStages;
  const int cluster = params.cluster_rows * params.cluster_columns;
  Rank rank;
  if (cluster > 1) rank = {cluster_rank() / params.cluster_columns, cluster_rank() % params.cluster_columns};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < S::kStages; ++stage) {
      barrier_init(ring.full + static_cast<std::uint32_t>(8 * stage), 1);
      barrier_init(ring.empty + static_cast<std::uint32_t>(8 * stage),
                   S::kWorkers * (params.cluster_rows + params.cluster_columns - 1));
    }
    for (int worker = 1; worker < S::kWorkers; ++worker) {
      barrier_init(ring.ahead + static_cast<std::uint32_t>(8 * (worker - 1)), 1);
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
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(S::kFetchRegisters));
    if (threadIdx.x < kWarpSize) fetch<S>(params, ring, rank, walk);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(S::kWorkRegisters));
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
