// How the product for Hopper is fed: one thread of a block asks the copy engine for every step's tiles.
#pragma once

#include "backend/cuda/launch.h"
#include "backend/cuda/product_shape.cuh"
#include "backend/cuda/product_walk.cuh"

namespace clef::cuda {
namespace {

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

// The same for tiles whose rows are weights: row 2 q + i of a group comes to lie at 8 i + q, or of a pair's groups of
// eight row q of matrix i.
__device__ __forceinline__ void copy_turned(std::uint32_t shared, const CUtensorMap* map, std::uint32_t barrier, int x,
                                            int group) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %5, %5, %4}], "
      "[%2];" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(group), "r"(0)
      : "memory");
}
__device__ __forceinline__ void copy_turned_to(std::uint16_t mask, std::uint32_t shared, const CUtensorMap* map,
                                               std::uint32_t barrier, int x, int group) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %6, %6, %4}], [%2], %5;" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(group), "h"(mask), "r"(0)
      : "memory");
}

// One lane of a warp that is there with all. Through this instruction the compiler knows that one thread goes on, and
// gives the copy engine its operands as they are; for a lane chosen by its number it makes a loop about each copy, and
// a step's copies then take longer to ask for than a small tile to multiply.
__device__ __forceinline__ bool is_elected() {
  std::uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n" : "=r"(elected));
  return elected != 0;
}

// What a block fetches of a step. A cluster's blocks share: the tile of rows goes to the blocks of this row, each of
// which fetches a slice of it, and the tile of columns to those of this column, a half from each.
template <typename S, bool kGrouped, bool kSharesRows, bool kSharesColumns>
struct Fetch {
  static_assert(!S::kTurned || (kGrouped && !kSharesColumns));
  static constexpr int kHalf = S::kColumns / 2;
  const Params& params;
  Rank rank;
  std::uint16_t row_mask, column_mask;
  int slice;                   // of the tile's rows, this block's to fetch
  std::uint32_t slice_at = 0;  // bytes

  __device__ Fetch(const Params& params_, Rank rank_) : params(params_), rank(rank_) {
    const int columns = params.cluster_columns;
    row_mask = static_cast<std::uint16_t>(((1 << columns) - 1) << (rank.row * columns));
    column_mask = static_cast<std::uint16_t>((1 << rank.column) | (1 << (columns + rank.column)));
    slice = S::kRows / columns;
    slice_at = static_cast<std::uint32_t>(rank.column * slice * kChunkRowBytes);
  }

  __device__ void half(std::uint32_t to, const CUtensorMap* map, std::uint32_t full, int depth, int row) const {
    if constexpr (kSharesColumns) {
      kGrouped ? copy_groups_to(column_mask, to, map, full, depth, row / kGroup)
               : copy_tile_to(column_mask, to, map, full, depth, row);
    } else {
      kGrouped ? copy_groups(to, map, full, depth, row / kGroup) : copy_tile(to, map, full, depth, row);
    }
  }
  __device__ void weights(const Ring<S>& ring, const Place& place, int depth) const {
    const std::uint32_t full = ring.full_at();
    if constexpr (S::kTurned) {
      constexpr int kOfMatrix = S::kPair ? kGroup / 2 : kGroup;  // rows of a group
      const int group = place.weight_row / kOfMatrix + rank.column * slice / kGroup;
      if constexpr (kSharesRows) {
        copy_turned_to(row_mask, ring.rows_at() + slice_at, &params.w, full, depth, group);
      } else {
        copy_turned(ring.rows_at(), &params.w, full, depth, group);
      }
    } else {
      // Two halves: of a pair the gate's rows and the other's, else the first rows and the rest.
      const CUtensorMap* second_map = S::kPair ? &params.w_up : &params.w;
      const int second_row = S::kPair ? place.weight_row : place.weight_row + kHalf;
      const std::uint32_t to = ring.columns_at(), second_to = to + kHalf * kChunkRowBytes;
      if constexpr (kSharesColumns) {
        const bool is_first = rank.row == 0;
        half(is_first ? to : second_to, is_first ? &params.w : second_map, full, depth,
             is_first ? place.weight_row : second_row);
      } else {
        half(to, &params.w, full, depth, place.weight_row);
        half(second_to, second_map, full, depth, second_row);
      }
    }
  }
  __device__ void input(const Ring<S>& ring, const Place& place, int depth) const {
    if constexpr (S::kTurned) {
      copy_tile(ring.columns_at(), &params.x, ring.full_at(), depth, place.from_row);
    } else if constexpr (kSharesRows) {
      copy_tile_to(row_mask, ring.rows_at() + slice_at, &params.x, ring.full_at(), depth,
                   place.from_row + rank.column * slice);
    } else {
      copy_tile(ring.rows_at(), &params.x, ring.full_at(), depth, place.from_row);
    }
  }

  // Where the weights of a step lie; every plane has the same.
  __device__ int weight_depth(int step) const {
    return (step < params.plane_steps ? step : step - params.plane_steps) * S::kStepDepth;
  }

  __device__ void run(Ring<S> ring, Walk walk) const {
    Piece piece;
    while (walk.has_piece() && (piece = walk.piece()).is_empty()) walk.advance();
    if (!walk.has_piece()) return;
    // Weights do not depend on the kernel before, so the first stages' are on their way while it ends.
    Place place = place_of<S>(params, piece.tile, rank);
    const int early = min(piece.first + S::kStages, piece.end);
    const Ring<S> start = ring;
    for (int step = piece.first; step < early; ++step, ring.advance()) {
      barrier_arrive_expecting(ring.full_at(), params.stage_bytes);
      weights(ring, place, weight_depth(step));
    }
    ring = start;
    wait_for_inputs();
    int step = piece.first;
    for (; step < early; ++step, ring.advance()) {
      input(ring, place, step * S::kStepDepth);
    }
    while (true) {
#pragma unroll 1
      for (; step < piece.end; ++step, ring.advance()) {
        barrier_wait(ring.empty_at(), ring.parity ^ 1);
        barrier_arrive_expecting(ring.full_at(), params.stage_bytes);
        weights(ring, place, weight_depth(step));
        input(ring, place, step * S::kStepDepth);
      }
      walk.advance();
      if (!walk.has_piece()) return;
      piece = walk.piece();
      place = place_of<S>(params, piece.tile, rank);
      step = piece.first;
    }
  }
};

template <typename S, bool kGrouped>
__device__ void fetch(const Params& params, const Ring<S>& ring, Rank rank, const Walk& walk) {
  const bool shares_rows = params.cluster_columns > 1, shares_columns = params.cluster_rows > 1;
  if constexpr (S::kTurned) {
    shares_rows ? Fetch<S, true, true, false>(params, rank).run(ring, walk)
                : Fetch<S, true, false, false>(params, rank).run(ring, walk);
  } else if (shares_rows) {
    shares_columns ? Fetch<S, kGrouped, true, true>(params, rank).run(ring, walk)
                   : Fetch<S, kGrouped, true, false>(params, rank).run(ring, walk);
  } else {
    shares_columns ? Fetch<S, kGrouped, false, true>(params, rank).run(ring, walk)
                   : Fetch<S, kGrouped, false, false>(params, rank).run(ring, walk);
  }
}
// By one warp.
template <typename S>
__device__ void fetch(const Params& params, const Ring<S>& ring, Rank rank, const Walk& walk) {
  if (!is_elected()) return;
  S::kTurned || params.grouped ? fetch<S, true>(params, ring, rank, walk)
                               : fetch<S, S::kTurned>(params, ring, rank, walk);
}

}  // namespace
}  // namespace clef::cuda
