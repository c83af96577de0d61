// What the product for Hopper is told, and how its tiles, its clusters of blocks and its ring of stages look.
#pragma once

#include <cuda.h>

#include <algorithm>

#include "backend/cuda/attention_wgmma.cuh"
#include "backend/cuda/product_walk.cuh"

namespace clef::cuda {
namespace {

constexpr int kTileDepth = kChunk;  // 64: one swizzled row; of E4M3 twice as many, the same bytes
constexpr int kGroup = 16;          // rows of the weights that are reordered among themselves
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
template <int kColumnsOf, bool kPairOf, int kWorkersOf, bool kIsE4m3Of = false, bool kTurnedOf = false,
          int kStackOf = 1>
struct Shape {
  static constexpr bool kIsE4m3 = kIsE4m3Of, kTurned = kTurnedOf;
  static constexpr int kStepDepth = kIsE4m3 ? 2 * kTileDepth : kTileDepth;
  static constexpr int kColumns = kColumnsOf;
  static constexpr bool kPair = kPairOf;
  static constexpr int kWorkers = kWorkersOf;  // warpgroups that multiply
  static constexpr int kStack = kStackOf;      // times 64 rows each
  static constexpr int kRows = 64 * kStack * kWorkers;
  static constexpr int kThreads = (1 + kWorkers) * kWarpgroup;
  // Of 65,536 registers a multiprocessor; setmaxnreg counts in eights. One warpgroup has enough as it is.
  static constexpr bool kMovesRegisters = kWorkers > 1;
  static constexpr int kFetchRegisters = kWorkers == 2 ? 40 : 56, kWorkRegisters = kWorkers == 2 ? 232 : 152;
  static constexpr int kInputRows = kTurned ? kColumns : kRows;
  static constexpr int kWeightRows = kTurned ? kRows : kColumns;  // of a pair half of them are the gate's
  static constexpr int kOutColumns = kPair ? kWeightRows / 2 : kWeightRows;
  static constexpr int kRowBytes = kRows * kChunkRowBytes;
  static constexpr int kColumnBytes = kColumns * kChunkRowBytes;
  static constexpr int kStageBytes = kRowBytes + kColumnBytes;
  static constexpr int kStages = std::min(12, (kSharedBytes - 2048) / kStageBytes);
  static constexpr int kBytes = kStages * kStageBytes + 1024 + 256;
  static_assert(kColumnBytes % kAtomBytes == 0 && (kTurned || kColumnBytes / 2 % kAtomBytes == 0));
};

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
