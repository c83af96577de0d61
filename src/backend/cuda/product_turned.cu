// The product for Hopper in turned tiles: which there are, and their start.
#include "backend/cuda/product_turned.h"

#include <utility>

#include "backend/cuda/product_launch.cuh"

namespace clef::cuda {
namespace {

// Rows of a tile, by the number of its warpgroups, each of which has 64 weights (of a pair 32 of each matrix).
template <int... kRows>
using Rows = std::integer_sequence<int, kRows...>;
using OfTwo = Rows<64, 80, 88, 96, 112, 128>;
using OfThree = Rows<128, 144, 160, 176, 192>;

// The two matrices of a pair are one tensor, with their distance as a stride.
bool is_pair_in_reach(const ProductArgs& args) {
  const std::int64_t distance = static_cast<const std::byte*>(args.w_up) - static_cast<const std::byte*>(args.w);
  return distance != 0 && std::abs(distance) < std::int64_t{1} << 40;
}

template <int kRows, int kWorkers>
cudaError_t launch(const ProductArgs& args, ProductTile tile, cudaStream_t stream) {
  Params params = params_of(args);
  if (args.follow == Follow::swiglu) {
    return launch<Shape<kRows, true, kWorkers, false, true>, false>(args, params, tile, stream);
  }
  if (args.is_e4m3) {
    return args.y_is_f32 ? launch<Shape<kRows, false, kWorkers, true, true>, true>(args, params, tile, stream)
                         : launch<Shape<kRows, false, kWorkers, true, true>, false>(args, params, tile, stream);
  }
  return args.y_is_f32 ? launch<Shape<kRows, false, kWorkers, false, true>, true>(args, params, tile, stream)
                       : launch<Shape<kRows, false, kWorkers, false, true>, false>(args, params, tile, stream);
}

template <int kWorkers, int... kRows>
cudaError_t launch_one_of(Rows<kRows...>, const ProductArgs& args, ProductTile tile, cudaStream_t stream) {
  cudaError_t status = cudaErrorInvalidValue;
  (void)((tile.rows == kRows && (status = launch<kRows, kWorkers>(args, tile, stream), true)) || ...);
  return status;
}

}  // namespace

bool can_be_turned(const ProductArgs& args) {
  return is_grouped(args) && (args.follow != Follow::swiglu || (!args.y_is_f32 && is_pair_in_reach(args)));
}

std::vector<ProductTile> turned_tiles() {
  std::vector<ProductTile> tiles;
  const auto add = [&]<int... kRows>(Rows<kRows...>, int columns) {
    for (const int rows : {kRows...}) {
      for (const int cluster_rows : {1, 2, 4}) {
        for (const bool shares : {false, true}) {
          tiles.push_back(
              {.rows = rows, .columns = columns, .cluster_rows = cluster_rows, .shares = shares, .turned = true});
        }
      }
    }
  };
  add(OfTwo{}, 2 * 64);
  add(OfThree{}, 3 * 64);
  return tiles;
}

cudaError_t launch_product_turned(const ProductArgs& args, ProductTile tile, cudaStream_t stream) {
  return tile.columns == 2 * 64   ? launch_one_of<2>(OfTwo{}, args, tile, stream)
         : tile.columns == 3 * 64 ? launch_one_of<3>(OfThree{}, args, tile, stream)
                                  : cudaErrorInvalidValue;
}

}  // namespace clef::cuda
