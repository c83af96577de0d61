// How the product for Hopper is started: its tensor maps and its grid.
#pragma once

#include <atomic>
#include <cstdlib>
#include <type_traits>

#include "backend/cuda/launch.h"
#include "backend/cuda/product_sm90.cuh"
#include "backend/cuda/tensor_map.h"

namespace clef::cuda {
namespace {

constexpr int kMostCluster = 8;

template <typename T>
constexpr auto kMapType = sizeof(T) == 2 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8;

// A matrix of halves, or of bytes, in boxes of as many columns as a swizzled row has; what lies outside is zero.
template <typename T>
bool make_map(CUtensorMap& map, const void* data, std::int64_t rows, std::int64_t columns, std::int64_t stride,
              int box_rows) {
  const auto size = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t sizes[2] = {size(columns), size(rows)};
  const cuuint64_t strides[1] = {size(stride) * sizeof(T)};
  const cuuint32_t box[2] = {kChunkRowBytes / sizeof(T), static_cast<cuuint32_t>(box_rows)};
  return encode_boxes(map, kMapType<T>, data, sizes, strides, box);
}

// The same in groups of sixteen rows, reordered as copy_groups says; all rows are in whole groups.
template <typename T>
bool make_grouped_map(CUtensorMap& map, const void* data, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                      int box_rows) {
  const auto size = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t row_bytes = size(stride) * sizeof(T);
  const cuuint64_t sizes[5] = {size(columns), 2, 4, 2, size(rows / kGroup)};
  const cuuint64_t strides[4] = {row_bytes, 4 * row_bytes, 2 * row_bytes, kGroup * row_bytes};
  const cuuint32_t box[5] = {kChunkRowBytes / sizeof(T), 2, 4, 2, static_cast<cuuint32_t>(box_rows / kGroup)};
  return encode_boxes(map, kMapType<T>, data, sizes, strides, box);
}

// The same for turned tiles, reordered as copy_turned says; of a pair, whose `up` lies that many bytes past data, in
// groups of eight rows of each.
template <typename T>
bool make_turned_map(CUtensorMap& map, const void* data, std::int64_t up, std::int64_t rows, std::int64_t columns,
                     std::int64_t stride, int box_rows) {
  const auto size = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t row_bytes = size(stride) * sizeof(T), half_group = kGroup / 2;
  const bool pair = up != 0;
  const cuuint64_t sizes[4] = {size(columns), half_group, 2, size(rows / (pair ? kGroup / 2 : kGroup))};
  const cuuint64_t strides[3] = {pair ? row_bytes : 2 * row_bytes, pair ? size(up) : row_bytes,
                                 pair ? half_group * row_bytes : kGroup * row_bytes};
  const cuuint32_t box[4] = {kChunkRowBytes / sizeof(T), kGroup / 2, 2, static_cast<cuuint32_t>(box_rows / kGroup)};
  return encode_boxes(map, kMapType<T>, data, sizes, strides, box);
}

template <typename S>
bool make_maps(const ProductArgs& args, Params& params) {
  using T = std::conditional_t<S::kIsE4m3, std::uint8_t, __half>;
  const std::int64_t stride = args.w_stride == 0 ? args.depth : args.w_stride;
  const std::int64_t weights = args.columns + args.gate_columns;
  const std::int64_t input_depth = args.planes > 1 ? args.planes * args.plane_depth : args.depth;
  const int slice = S::kRows / params.cluster_columns;
  // Rows of which there are too few for a tile are not filled up: what stands in their place concerns no other.
  const bool is_sliced = !S::kTurned && params.cluster_columns > 1;
  const int input_rows = is_sliced ? S::kInputRows : static_cast<int>(std::min<std::int64_t>(args.rows, S::kInputRows));
  params.stage_bytes = (S::kWeightRows + input_rows) * kChunkRowBytes;
  if (!make_map<T>(params.x, args.x, args.rows, input_depth, args.x_stride, is_sliced ? slice : input_rows)) {
    return false;
  }
  if constexpr (S::kTurned) {
    const auto* w = static_cast<const std::byte*>(args.w);
    const std::int64_t up = S::kPair ? static_cast<const std::byte*>(args.w_up) - w : 0;
    params.up_first = up < 0;
    return make_turned_map<T>(params.w, up < 0 ? w + up : w, std::abs(up), weights, args.depth, stride, slice);
  } else {
    constexpr int kHalf = S::kColumns / 2;
    static_assert(kHalf % kGroup == 0 && S::kOutColumns % kGroup == 0);
    const auto make_weights_map = [&](CUtensorMap& map, const void* data, std::int64_t rows) {
      return params.grouped ? make_grouped_map<T>(map, data, rows, args.depth, stride, kHalf)
                            : make_map<T>(map, data, rows, args.depth, stride, kHalf);
    };
    return make_weights_map(params.w, args.w, weights) &&
           (!S::kPair || make_weights_map(params.w_up, args.w_up, args.columns));
  }
}

template <typename S, bool kF32>
cudaError_t launch(const ProductArgs& args, Params& params, ProductTile tile, cudaStream_t stream) {
  // Of the tiles' rows and columns, which are y's or, turned, the other way round.
  params.cluster_rows = S::kTurned ? tile.cluster_columns : tile.cluster_rows;
  params.cluster_columns = S::kTurned ? tile.cluster_rows : tile.cluster_columns;
  if (!make_maps<S>(args, params)) return cudaErrorInvalidValue;
  const int cluster = tile.cluster_rows * tile.cluster_columns;
  count_tiles<S>(params);
  const auto kernel = product<S, kF32>;
  Launch launch(dim3(static_cast<unsigned>(cluster)), dim3(S::kThreads), S::kBytes, stream);
  launch.set_cluster(cluster);
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (device >= kMostDevices) return cudaErrorInvalidDevice;
  // A kernel is told of its shared memory on each device before its first start there.
  static std::atomic<int> most_of_device[kMostDevices][kMostCluster + 1] = {};
  std::atomic<int>& most = most_of_device[device][cluster];
  if (most == 0) {
    // Clusters of four do not fit into every part of the chip: a block more than fit at once would wait for all others.
    int fit = 0;
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes);
    if (error == cudaSuccess) error = cudaOccupancyMaxActiveClusters(&fit, kernel, &launch.config());
    if (error != cudaSuccess) return error;
    if (fit == 0) return cudaErrorInvalidConfiguration;
    most = fit;
  }
  const std::int64_t tiles = std::int64_t{params.row_tiles} * params.column_tiles;
  const std::int64_t at_once = std::min<std::int64_t>(tiles, most);
  const bool shares = tile.shares && tiles % at_once != 0 && at_once * cluster <= Handover::kMostBlocks;
  params.whole_rounds = static_cast<int>(shares ? tiles / at_once - 1 : div_up(tiles, at_once));
  launch.config().gridDim = dim3(static_cast<unsigned>(at_once * cluster));
  return launch.run(kernel, params);
}

bool on_words(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

std::int64_t plane_steps(const ProductArgs& args) {
  return div_up(args.depth, args.is_e4m3 ? 2 * kTileDepth : kTileDepth);
}

// Whether outputs lie on whole words in sixteens, so that the weights' rows may come reordered.
bool is_grouped(const ProductArgs& args) {
  const std::int64_t element = args.y_is_f32 ? 4 : 2;
  return args.columns % kGroup == 0 && args.gate_columns % kGroup == 0 && args.gates_stride % 4 == 0 &&
         args.y_stride * element % 16 == 0 && on_words(args.y);
}

// All that does not depend on the tile.
inline Params params_of(const ProductArgs& args) {
  Params params{};
  params.y = args.y;
  params.y_stride = args.y_stride;
  params.gates = args.gates;
  params.gates_stride = args.gates_stride;
  params.gate_columns = static_cast<int>(args.gate_columns);
  params.row_scale = args.row_scale;
  params.bias = args.bias;
  params.to_rows = args.to_rows;
  params.places = args.places;
  params.low_sums = args.low_sums;
  params.remainder = args.remainder;
  params.partial = args.handover.sums;
  params.marks = args.handover.marks;
  params.launch = args.handover.launch;
  params.rows = static_cast<int>(args.rows);
  params.columns = static_cast<int>(args.columns);
  params.plane_steps = static_cast<int>(plane_steps(args));
  params.planes = args.planes;
  params.alpha = args.alpha;
  params.add = args.follow == Follow::add;
  params.gelu = args.follow == Follow::gelu_tanh;
  params.grouped = is_grouped(args);
  return params;
}

}  // namespace
}  // namespace clef::cuda
