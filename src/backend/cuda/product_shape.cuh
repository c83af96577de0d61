// What the product for Hopper is told, and how its tiles, its clusters of blocks and its ring of stages look.
#pragma once

#include <cuda.h>

#include <algorithm>

#include "backend/cuda/attention_wgmma.cuh"

namespace clef::cuda {
namespace {

constexpr int kTileDepth = kChunk;  // 64: one swizzled row; of E4M3 twice as many, the same bytes
constexpr int kGroup = 16;          // rows of the weights that are reordered among themselves
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
  int own_tiles;                      // of blocks in y's columns, before those of the gates
  int stage_bytes;                    // that are copied
  int whole_rounds;                   // in which each cluster takes a tile of its own; what is left is shared
  float* partial;                     // sums of tiles that are handed on, or none
  unsigned* marks;                    // `launch` where one is there
  unsigned launch;
  float alpha;
  bool add;       // to the y that is there
  bool gelu;      // the tanh form
  bool grouped;   // the weights' rows come in an order in which a lane's sums lie side by side in y
  bool up_first;  // of a turned pair
};

// What is multiplied, and how tiles look. A tile has as many rows as its warpgroups have together, and any columns. Its
// rows are the input's and its columns the weights'; turned, for few rows of input, its rows are the weights' and its
// columns the input's, of which there may then be any eight.
template <int kColumnsOf, bool kPairOf, int kWorkersOf, bool kIsE4m3Of = false, bool kTurnedOf = false>
struct Shape {
  static constexpr bool kIsE4m3 = kIsE4m3Of, kTurned = kTurnedOf;
  static constexpr int kStepDepth = kIsE4m3 ? 2 * kTileDepth : kTileDepth;
  static constexpr int kColumns = kColumnsOf;
  static constexpr bool kPair = kPairOf;
  static constexpr int kWorkers = kWorkersOf;  // warpgroups that multiply, 64 rows each
  static constexpr int kRows = 64 * kWorkers;
  static constexpr int kThreads = (1 + kWorkers) * kWarpgroup;
  // Of 65,536 registers a multiprocessor; setmaxnreg counts in eights.
  static constexpr int kFetchRegisters = kWorkers == 2 ? 40 : 56, kWorkRegisters = kWorkers == 2 ? 232 : 152;
  static constexpr int kInputRows = kTurned ? kColumns : kRows;
  static constexpr int kWeightRows = kTurned ? kRows : kColumns;  // of a pair half of them are the gate's
  static constexpr int kOutColumns = kPair ? kWeightRows / 2 : kWeightRows;
  static constexpr int kRowBytes = kRows * kChunkRowBytes;
  static constexpr int kColumnBytes = kColumns * kChunkRowBytes;
  static constexpr int kStageBytes = kRowBytes + kColumnBytes;
  static constexpr int kStages = std::min(8, (kSharedBytes - 2048) / kStageBytes);
  static constexpr int kBytes = kStages * kStageBytes + 1024 + 256;
  static_assert(kColumnBytes % kAtomBytes == 0 && (kTurned || kColumnBytes / 2 % kAtomBytes == 0));
};

// A tile's place. What it reads lies inside the matrices wherever they are large enough for it: the last tile then
// begins before its first output, and repeats what it does not own. (The copy engine takes several times as long for a
// row that lies outside.)
struct Place {
  int row, column;            // of the tile's first output of its own: in y, or in the gates
  int from_row, from_column;  // of what is the tile's first input and first weight
  int weight_row;             // of the first weight
  bool is_gates;
  __device__ bool owns_row(const Params& params, int r) const { return r >= row && r < params.rows; }
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
  const int row = row_tile * params.cluster_rows + rank.row;
  const int column = in_group / height * params.cluster_columns + rank.column;
  const int of_input = S::kTurned ? column : row, of_weights = S::kTurned ? row : column;
  Place place;
  place.row = of_input * S::kInputRows;
  place.from_row = min(place.row, max(params.rows - S::kInputRows, 0));
  place.is_gates = params.gate_columns > 0 && of_weights >= params.own_tiles;
  place.column = (place.is_gates ? of_weights - params.own_tiles : of_weights) * S::kOutColumns;
  const int first = place.column + (place.is_gates ? params.columns : 0);
  place.weight_row = min(first, max(params.columns + params.gate_columns - S::kOutColumns, 0));
  place.from_column = place.column - (first - place.weight_row);
  return place;
}

template <typename S>
struct Ring {
  std::uint32_t tiles, full, empty;  // addresses
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ std::uint32_t rows_at() const { return tiles + static_cast<std::uint32_t>(stage * S::kStageBytes); }
  __device__ std::uint32_t columns_at() const { return rows_at() + S::kRowBytes; }
  __device__ std::uint32_t full_at() const { return full + static_cast<std::uint32_t>(8 * stage); }
  __device__ std::uint32_t empty_at() const { return empty + static_cast<std::uint32_t>(8 * stage); }
  __device__ int stage_before() const { return stage == 0 ? S::kStages - 1 : stage - 1; }
  __device__ void advance() {
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace
}  // namespace clef::cuda
