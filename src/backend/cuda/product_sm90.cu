// Hopper's matrix product: which tile a product takes, and its start.
#include "backend/cuda/product_sm90.cuh"

#include "backend/cuda/tensor_map.h"

#include <type_traits>

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
  const cuuint32_t steps[2] = {1, 1};
  return encode_tiled() != nullptr &&
         encode_tiled()(&map, kMapType<T>, 2, const_cast<void*>(data), sizes, strides, box, steps,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
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
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  return encode_tiled() != nullptr &&
         encode_tiled()(&map, kMapType<T>, 5, const_cast<void*>(data), sizes, strides, box, steps,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <typename S, bool kF32>
cudaError_t launch(const ProductArgs& args, Params& params, ProductTile tile, cudaStream_t stream) {
  constexpr int kHalf = S::kColumns / 2;
  const std::int64_t weights = args.columns + args.gate_columns;
  static_assert(kHalf % kGroup == 0 && S::kOutColumns % kGroup == 0);
  using T = std::conditional_t<S::kIsE4m3, std::uint8_t, __half>;
  const std::int64_t stride = args.w_stride == 0 ? args.depth : args.w_stride;
  const auto make_weights_map = [&](CUtensorMap& map, const void* data, std::int64_t rows) {
    return params.grouped ? make_grouped_map<T>(map, data, rows, args.depth, stride, kHalf)
                          : make_map<T>(map, data, rows, args.depth, stride, kHalf);
  };
  if (!make_map<T>(params.x, args.x, args.rows, args.planes > 1 ? args.planes * args.plane_depth : args.depth,
                   args.x_stride, S::kRows / tile.cluster_columns) ||
      !make_weights_map(params.w, args.w, weights) ||
      (S::kPair && !make_weights_map(params.w_up, args.w_up, args.columns))) {
    return cudaErrorInvalidValue;
  }
  const int cluster = tile.cluster_rows * tile.cluster_columns;
  params.cluster_rows = tile.cluster_rows;
  params.cluster_columns = tile.cluster_columns;
  params.row_tiles = static_cast<int>(div_up(args.rows, S::kRows * tile.cluster_rows));
  params.own_column_tiles = static_cast<int>(div_up(args.columns, S::kOutColumns));
  params.column_tiles = static_cast<int>(
      div_up(params.own_column_tiles + div_up(args.gate_columns, S::kOutColumns), tile.cluster_columns));
  const auto kernel = product<S, kF32>;
  static const cudaError_t opted = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes);
  if (opted != cudaSuccess) return opted;
  Launch launch(dim3(static_cast<unsigned>(cluster)), dim3(S::kThreads), S::kBytes, stream);
  launch.set_cluster(cluster);
  // Clusters of four do not fit into every part of the chip: a block more than fit at once would wait for all others.
  static int most[kMostCluster + 1] = {};
  if (most[cluster] == 0) {
    const cudaError_t error = cudaOccupancyMaxActiveClusters(&most[cluster], kernel, &launch.config());
    if (error != cudaSuccess) return error;
    if (most[cluster] == 0) return cudaErrorInvalidConfiguration;
  }
  const std::int64_t tiles = std::int64_t{params.row_tiles} * params.column_tiles;
  const std::int64_t at_once = std::min<std::int64_t>(tiles, most[cluster]);
  const bool shares = tile.shares && tiles % at_once != 0 && at_once * cluster <= Handover::kMostBlocks;
  params.whole_rounds = static_cast<int>(shares ? tiles / at_once - 1 : div_up(tiles, at_once));
  launch.config().gridDim = dim3(static_cast<unsigned>(at_once * cluster));
  return launch.run(kernel, params);
}

template <int kColumns, int kWorkers>
cudaError_t launch(const ProductArgs& args, Params& params, ProductTile tile, cudaStream_t stream) {
  if constexpr (kColumns / 2 % 32 == 0) {
    if (args.follow == Follow::swiglu) {
      return args.y_is_f32 ? launch<Shape<kColumns, true, kWorkers>, true>(args, params, tile, stream)
                           : launch<Shape<kColumns, true, kWorkers>, false>(args, params, tile, stream);
    }
  }
  if (args.follow == Follow::swiglu) return cudaErrorInvalidValue;
  if (args.is_e4m3) {
    return args.y_is_f32 ? launch<Shape<kColumns, false, kWorkers, true>, true>(args, params, tile, stream)
                         : launch<Shape<kColumns, false, kWorkers, true>, false>(args, params, tile, stream);
  }
  return args.y_is_f32 ? launch<Shape<kColumns, false, kWorkers>, true>(args, params, tile, stream)
                       : launch<Shape<kColumns, false, kWorkers>, false>(args, params, tile, stream);
}

bool on_words(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

std::int64_t plane_steps(const ProductArgs& args) {
  return div_up(args.depth, args.is_e4m3 ? 2 * kTileDepth : kTileDepth);
}

// An estimate of what the work takes, in cycles, fitted to 514 times on an H200: the tile it picks was 1.4 % from the
// best on average. A step is bound by the tensor cores, by a multiprocessor's shared memory, which the copy engine
// writes and every warpgroup reads, or by what the second-level cache sends to all of them.
double cycles(std::int64_t rows, std::int64_t columns, double steps, bool pair, ProductTile tile) {
  constexpr double kColumnCycles = 4.99, kSharedBytesACycle = 107;
  // Sustained, a deep product of many rows has less of the cache; fitted apart, to 470 times on a card at its power's
  // limit.
  const double cache_bytes_a_cycle = steps >= 128 && rows >= 1024 ? 4400 : 5640;
  constexpr double kTileCycles = 2530, kElementCycles = 0.0717, kHandoverCycles = 16000;
  constexpr int kClustersAtOnce[kMostCluster + 1] = {0, 132, 66, 0, 32, 0, 0, 0, 16};
  constexpr double kCoupling[kMostCluster + 1] = {0, 1, 1.02, 0, 1.10, 0, 0, 0, 1.43};  // blocks wait for each other
  const int cluster = tile.cluster_rows * tile.cluster_columns;
  const std::int64_t clusters = div_up(rows, tile.rows * tile.cluster_rows) *
                                div_up(columns, (pair ? tile.columns / 2 : tile.columns) * tile.cluster_columns);
  const std::int64_t at_once = std::min<std::int64_t>(clusters, kClustersAtOnce[cluster]);
  const double row_bytes = tile.rows * kChunkRowBytes, column_bytes = tile.columns * kChunkRowBytes;
  const double shared = 2 * row_bytes + column_bytes * (1 + tile.rows / 64);
  const double read = row_bytes / tile.cluster_columns + column_bytes / tile.cluster_rows;
  const double step = std::max({kColumnCycles * tile.columns * tile.rows / 128, shared / kSharedBytesACycle,
                                static_cast<double>(at_once * cluster) * read / cache_bytes_a_cycle});
  const double end = kTileCycles + kElementCycles * tile.rows * tile.columns * (pair ? 0.5 : 1.0);
  const double rounds = static_cast<double>(div_up(clusters, at_once));
  if (!tile.shares) return rounds * (steps * step * kCoupling[cluster] + end);
  const double share = static_cast<double>(clusters) / static_cast<double>(at_once);
  return share * steps * step * kCoupling[cluster] + rounds * end + kHandoverCycles;
}

bool are_valid_operands(const ProductArgs& args) {
  const bool swiglu = args.follow == Follow::swiglu;
  if (!on_words(args.x) || !on_words(args.w) || (swiglu && !on_words(args.w_up)) || args.depth % 8 != 0 ||
      (args.w_stride != 0 && args.w_stride < args.depth)) {
    return false;
  }
  if (args.is_e4m3)
    return !swiglu && args.planes == 1 && args.x_stride % 16 == 0 && args.w_stride % 16 == 0 &&
           (args.w_stride != 0 || args.depth % 16 == 0);
  return args.x_stride % 8 == 0 && args.w_stride % 8 == 0 &&
         (args.planes == 1 || args.plane_depth == div_up(args.depth, kTileDepth) * kTileDepth);
}

bool are_valid_gates(const ProductArgs& args) {
  return args.gate_columns == 0 ||
         ((args.follow == Follow::store || args.follow == Follow::add) && args.bias == nullptr &&
          args.gate_columns % 2 == 0 && args.gates_stride % 2 == 0 && on_words(args.gates));
}

bool are_valid_rows(const ProductArgs& args) {
  if (args.to_rows != nullptr && args.follow != Follow::add) return false;
  if (args.low_sums == nullptr) return args.places == nullptr && args.remainder == nullptr;
  return args.follow == Follow::swiglu && !args.y_is_f32 && args.remainder != nullptr && on_words(args.low_sums) &&
         on_words(args.remainder);
}

constexpr ProductTile kShapes[] = {{.rows = 128, .columns = 256}, {.rows = 128, .columns = 192},
                                   {.rows = 128, .columns = 128}, {.rows = 128, .columns = 96},
                                   {.rows = 192, .columns = 192}, {.rows = 192, .columns = 160},
                                   {.rows = 192, .columns = 128}};

}  // namespace

cudaError_t launch_product_sm90(const ProductArgs& args, ProductTile tile, cudaStream_t stream) {
  if (!are_valid_operands(args) || !are_valid_gates(args) || !are_valid_rows(args) ||
      (args.follow == Follow::add && !args.y_is_f32) || args.follow == Follow::gelu_erf ||
      (args.follow == Follow::gelu_tanh && args.y_is_f32) || (tile.shares && args.handover.sums == nullptr) ||
      args.rows > INT32_MAX - 4096 || args.columns + args.gate_columns > INT32_MAX - 4096) {
    return cudaErrorInvalidValue;
  }
  if (args.rows == 0 || args.columns == 0) return cudaSuccess;
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
  const std::int64_t element = args.y_is_f32 ? 4 : 2;
  params.grouped = args.columns % kGroup == 0 && args.gate_columns % kGroup == 0 && args.gates_stride % 4 == 0 &&
                   args.y_stride * element % 16 == 0 && on_words(args.y);
  switch (tile.rows * 1000 + tile.columns) {
    case 128256:
      return launch<256, 2>(args, params, tile, stream);
    case 128192:
      return launch<192, 2>(args, params, tile, stream);
    case 128128:
      return launch<128, 2>(args, params, tile, stream);
    case 128096:
      return launch<96, 2>(args, params, tile, stream);
    case 192192:
      return launch<192, 3>(args, params, tile, stream);
    case 192160:
      return launch<160, 3>(args, params, tile, stream);
    case 192128:
      return launch<128, 3>(args, params, tile, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

std::vector<ProductTile> product_tiles(Follow follow) {
  std::vector<ProductTile> tiles;
  for (ProductTile tile : kShapes) {
    if (follow == Follow::swiglu && tile.columns / 2 % 32 != 0) continue;  // not compiled: they are never the best
    for (const int cluster_rows : {1, 2}) {
      for (const int cluster_columns : {1, 2, 4}) {
        tile.cluster_rows = cluster_rows;
        tile.cluster_columns = cluster_columns;
        for (const bool shares : {false, true}) {
          tile.shares = shares;
          tiles.push_back(tile);
        }
      }
    }
  }
  return tiles;
}

cudaError_t launch_product_sm90(const ProductArgs& args, cudaStream_t stream) {
  const double steps = static_cast<double>(plane_steps(args)) * args.planes;
  static const std::vector<ProductTile> all = product_tiles(Follow::store), of_pairs = product_tiles(Follow::swiglu);
  const bool pair = args.follow == Follow::swiglu;
  ProductTile best;
  double least = 1e300;
  for (const ProductTile& tile : pair ? of_pairs : all) {
    if (tile.shares && args.handover.sums == nullptr) continue;
    const double cost = cycles(args.rows, args.columns + args.gate_columns, steps, pair, tile);
    if (cost < least) {
      least = cost;
      best = tile;
    }
  }
  return launch_product_sm90(args, best, stream);
}

}  // namespace clef::cuda
