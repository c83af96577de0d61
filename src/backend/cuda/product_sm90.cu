// Hopper's matrix product: which tile a product takes, and its start.
#include <array>
#include <cmath>
#include <map>

#include "backend/cuda/product_launch.cuh"
#include "backend/cuda/product_turned.h"

namespace clef::cuda {
namespace {

// A tile of so many warpgroups, each of which has `stack` blocks of 64 rows, by so many columns.
template <int columns, int workers, int stack = 1>
struct Of {
  static constexpr int kColumns = columns, kWarpgroups = workers, kRows = 64 * workers * stack;
  // What it is compiled for. Elsewhere it is never the best: one warpgroup is for the low parts of few rows.
  static constexpr bool kIsLow = workers == 1;
  static constexpr bool kOfE4m3 = stack == 1, kOfF16 = !kIsLow, kOfPairs = !kIsLow && columns / 2 % 32 == 0;
  static constexpr bool kOfPairsIntoF32 = kOfPairs && stack == 1;

  static bool is(const ProductTile& tile) { return !tile.turned && tile.rows == kRows && tile.columns == kColumns; }
  static bool can_do(const ProductArgs& args) {
    if (args.follow == Follow::swiglu) return !args.is_e4m3 && (args.y_is_f32 ? kOfPairsIntoF32 : kOfPairs);
    return args.is_e4m3 ? kOfE4m3 : kOfF16;
  }
  template <bool kPair, bool kIsE4m3, bool kF32>
  static cudaError_t start(const ProductArgs& args, Params& params, ProductTile tile, cudaStream_t stream) {
    return launch<Shape<columns, kPair, workers, kIsE4m3, false, stack>, kF32>(args, params, tile, stream);
  }
  static cudaError_t start(const ProductArgs& args, Params& params, ProductTile tile, cudaStream_t stream) {
    if (args.follow == Follow::swiglu) {
      if constexpr (kOfPairsIntoF32) {
        if (args.y_is_f32) return start<true, false, true>(args, params, tile, stream);
      }
      if constexpr (kOfPairs) {
        if (!args.y_is_f32) return start<true, false, false>(args, params, tile, stream);
      }
    } else if (args.is_e4m3) {
      if constexpr (kOfE4m3) {
        return args.y_is_f32 ? start<false, true, true>(args, params, tile, stream)
                             : start<false, true, false>(args, params, tile, stream);
      }
    } else if constexpr (kOfF16) {
      return args.y_is_f32 ? start<false, false, true>(args, params, tile, stream)
                           : start<false, false, false>(args, params, tile, stream);
    }
    return cudaErrorInvalidValue;
  }
};

// All tiles that are not turned. Take is called with one Of after the other until it says true.
template <typename Take>
bool some_tile(Take take) {
  const auto one_of = [&]<typename... Tiles>() { return (take.template operator()<Tiles>() || ...); };
  return one_of.template operator()<Of<192, 2, 2>, Of<160, 2, 2>, Of<256, 2>, Of<192, 2>, Of<128, 2>, Of<96, 2>,
                                    Of<192, 3>, Of<160, 3>, Of<128, 3>, Of<192, 1>, Of<96, 1>, Of<64, 1>, Of<32, 1>>();
}

int warpgroups_of(const ProductTile& tile) {
  int count = tile.columns / 64;  // of a turned one, 64 weights each
  some_tile([&]<typename Tile>() { return Tile::is(tile) && (count = Tile::kWarpgroups, true); });
  return count;
}

constexpr std::int64_t kMostTurnedRows = 1024;  // they were measured with few more

// x and y where the larger one decides, and a little more where both are near: (x^6 + y^6)^(1/6).
double larger_of(double x, double y) {
  const double a = x * x * x, b = y * y * y;
  return std::cbrt(std::sqrt(a * a + b * b));
}

// An estimate of what the work takes, in cycles, fitted to 4,000 times on an H200, of 64 to 1,024 rows and some of
// more: the tile it picks was 1.2 % from the best of all on average (before there were tiles of 256 rows). A step is
// bound by the tensor cores, by the instructions between its products, or by what the second-level cache sends to all;
// the whole by the weights' way from memory.
double cycles(std::int64_t rows, std::int64_t columns, std::int64_t gate_columns, double steps, double step_bytes,
              bool pair, bool gelu, bool is_e4m3, bool stores_halves, const ProductTile& tile) {
  constexpr double kTensor = 1.2625 / 32, kStepCycles = 191, kStepCyclesOfElement = 0.606 / 64;
  constexpr double kCacheBytes = 8120, kMemoryBytes = 2190;  // in a cycle
  constexpr double kOwnBytes = 62;                           // of one multiprocessor
  // Of weights, which come from memory while inputs of few rows are in the cache already.
  const double weight_cost = rows <= 1024 ? 1.384 : 1;
  constexpr double kTileCycles = 1050, kElementCycles = 0.0586, kPairElementCycles = 0.357;
  constexpr double kGeluElementCycles = 0.3;                            // of those that a warpgroup has
  constexpr double kTurnedCycles = 0.0568, kTurnedPairCycles = 0.0777;  // more for each element
  // Turned tiles, of few rows: one after another, as a model's products are, they lose more by it than alone.
  const double handover = tile.turned ? 26000 : 12760;
  constexpr double kStartCycles = 3290, kClusterStartCycles = 1210;
  constexpr std::int64_t kMostRowsWithPower = 1024;
  constexpr double kReadPower = 8.4;  // for each row that is read for an element
  constexpr double kPartOfLine = 1.025;
  constexpr int kClustersAtOnce[kMostCluster + 1] = {0, 132, 66, 0, 32, 0, 0, 0, 16};
  constexpr double kCoupling[kMostCluster + 1] = {0, 1, 1, 0, 1.076, 0, 0, 0, 1.43};  // blocks wait for each other
  const int cluster = tile.cluster_rows * tile.cluster_columns, out_columns = pair ? tile.columns / 2 : tile.columns;
  const std::int64_t clusters =
      div_up(rows, tile.rows * tile.cluster_rows) *
      div_up(div_up(columns, out_columns) + div_up(gate_columns, out_columns), tile.cluster_columns);
  const std::int64_t at_once = std::min<std::int64_t>(clusters, kClustersAtOnce[cluster]);
  const double elements = static_cast<double>(tile.rows) * tile.columns;
  const double read = static_cast<double>(tile.rows * kChunkRowBytes) / tile.cluster_columns +
                      static_cast<double>(tile.columns * kChunkRowBytes) / tile.cluster_rows * weight_cost;
  double step = larger_of(kTensor * elements, kStepCycles + kStepCyclesOfElement * elements);
  step = larger_of(step, static_cast<double>(at_once * cluster) * read / kCacheBytes) * kCoupling[cluster];
  if (is_e4m3) step = larger_of(step, static_cast<double>((tile.rows + tile.columns) * kChunkRowBytes) / kOwnBytes);
  const double turned = tile.turned ? (pair ? kTurnedPairCycles : kTurnedCycles) : 0;
  const double end = kTileCycles + ((pair ? kPairElementCycles : kElementCycles) + turned) * elements +
                     (gelu ? kGeluElementCycles / warpgroups_of(tile) * elements : 0);
  const double rounds = static_cast<double>(div_up(clusters, at_once));
  double all = rounds * (steps * step + end);
  if (tile.shares && clusters % at_once != 0) {
    all = static_cast<double>(clusters) / static_cast<double>(at_once) * steps * step + rounds * end + handover;
  }
  // Many rows keep the card at the limit of its power, where what is read from the second-level cache costs clock rate:
  // a fit to whole requests of 4,510 and 16,347 tokens with one tile each. So do outputs that begin or end inside a
  // line of the cache: of products alone, a quarter of a second each.
  if (rows > kMostRowsWithPower) {
    all *= 1 + kReadPower * read / (elements * kChunkRowBytes);
    if (stores_halves && !pair && out_columns * 2 % kChunkRowBytes != 0) all *= kPartOfLine;
  }
  const double weights = static_cast<double>((pair ? 2 : 1) * columns + gate_columns) * steps * step_bytes;
  return larger_of(all, weights / kMemoryBytes) + kStartCycles + (cluster > 1 ? kClusterStartCycles : 0);
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

}  // namespace

cudaError_t launch_product_sm90(const ProductArgs& args, ProductTile tile, cudaStream_t stream) {
  if (!are_valid_operands(args) || !are_valid_gates(args) || !are_valid_rows(args) ||
      (args.follow == Follow::add && !args.y_is_f32) || args.follow == Follow::gelu_erf ||
      (args.follow == Follow::gelu_tanh && args.y_is_f32) || (tile.shares && args.handover.sums == nullptr) ||
      args.rows > INT32_MAX - 4096 || args.columns + args.gate_columns > INT32_MAX - 4096 ||
      (tile.turned && (!can_be_turned(args) || tile.cluster_columns != 1))) {
    return cudaErrorInvalidValue;
  }
  if (args.rows == 0 || args.columns == 0) return cudaSuccess;
  if (tile.turned) return launch_product_turned(args, tile, stream);
  Params params = params_of(args);
  cudaError_t status = cudaErrorInvalidValue;
  some_tile([&]<typename Tile>() {
    if (!Tile::is(tile)) return false;
    status = Tile::start(args, params, tile, stream);
    return true;
  });
  return status;
}

std::vector<ProductTile> product_tiles(const ProductArgs& args) {
  std::vector<ProductTile> tiles;
  if (can_be_turned(args)) tiles = turned_tiles();
  some_tile([&]<typename Tile>() {
    if (!Tile::can_do(args)) return false;
    for (const int cluster_rows : {1, 2}) {
      for (const int cluster_columns : {1, 2, 4}) {
        for (const bool shares : {false, true}) {
          tiles.push_back({.rows = Tile::kRows,
                           .columns = Tile::kColumns,
                           .cluster_rows = cluster_rows,
                           .cluster_columns = cluster_columns,
                           .shares = shares});
        }
      }
    }
    return false;
  });
  return tiles;
}

ProductTile chosen_tile(const ProductArgs& args) {
  const std::int64_t steps = plane_steps(args);
  const bool pair = args.follow == Follow::swiglu;
  // A step's bytes of a row of weights; a second plane finds them in the cache.
  const double step_bytes = static_cast<double>(kChunkRowBytes) / args.planes;
  ProductTile best;
  double least = 1e300;
  for (const ProductTile& tile : product_tiles(args)) {
    if ((tile.shares && args.handover.sums == nullptr) || (tile.turned && args.rows > kMostTurnedRows)) continue;
    const double cost = cycles(args.rows, args.columns, args.gate_columns, static_cast<double>(steps * args.planes),
                               step_bytes, pair, args.follow == Follow::gelu_tanh, args.is_e4m3, !args.y_is_f32, tile);
    if (cost < least) {
      least = cost;
      best = tile;
    }
  }
  return best;
}

// Everything that chosen_tile() looks at is in the key: a tile of one kind of product may not be there for another.
ProductTile remembered_tile(const ProductArgs& args) {
  constexpr std::size_t kMostKept = 4096;
  thread_local std::map<std::array<std::int64_t, 7>, ProductTile> kept;
  const std::int64_t kinds = (can_be_turned(args) ? 1 : 0) + (args.handover.sums == nullptr ? 0 : 2) +
                             (args.is_e4m3 ? 4 : 0) + (args.y_is_f32 ? 8 : 0);
  const std::array<std::int64_t, 7> key{args.rows,
                                        args.columns,
                                        args.gate_columns,
                                        plane_steps(args),
                                        args.planes,
                                        static_cast<std::int64_t>(args.follow),
                                        kinds};
  auto found = kept.find(key);
  if (found == kept.end()) {
    if (kept.size() >= kMostKept) kept.clear();
    found = kept.emplace(key, chosen_tile(args)).first;
  }
  return found->second;
}

cudaError_t launch_product_sm90(const ProductArgs& args, cudaStream_t stream) {
  return launch_product_sm90(args, remembered_tile(args), stream);
}

}  // namespace clef::cuda
