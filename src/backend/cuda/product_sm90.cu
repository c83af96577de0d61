// Hopper's matrix product: which tile a product takes, and its start.
#include "backend/cuda/product_launch.cuh"
#include "backend/cuda/product_turned.h"

namespace clef::cuda {
namespace {

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
  if (tile.turned) return launch_product_turned(args, tile, stream);
  Params params = params_of(args);
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

std::vector<ProductTile> product_tiles(const ProductArgs& args) {
  std::vector<ProductTile> tiles = turned_tiles(args);
  for (ProductTile tile : kShapes) {
    // Not compiled: they are never the best.
    if (args.follow == Follow::swiglu && tile.columns / 2 % 32 != 0) continue;
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
  const bool pair = args.follow == Follow::swiglu;
  ProductTile best;
  double least = 1e300;
  for (const ProductTile& tile : product_tiles(args)) {
    if (tile.turned || (tile.shares && args.handover.sums == nullptr)) continue;
    const double cost = cycles(args.rows, args.columns + args.gate_columns, steps, pair, tile);
    if (cost < least) {
      least = cost;
      best = tile;
    }
  }
  return launch_product_sm90(args, best, stream);
}

}  // namespace clef::cuda
