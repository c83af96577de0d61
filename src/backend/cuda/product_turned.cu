// The product for Hopper in turned tiles: which there are, and their start.
#include "backend/cuda/product_turned.h"

#include "backend/cuda/product_launch.cuh"

namespace clef::cuda {
namespace {

// Rows of a tile: with 128 columns of y up to 128, with 192 more.
constexpr int kTwoWorkers[] = {64, 80, 88, 96, 112, 128}, kThreeWorkers[] = {128, 144, 160, 176, 192};

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

}  // namespace

bool can_be_turned(const ProductArgs& args) {
  return params_of(args).grouped && (args.follow != Follow::swiglu || (!args.y_is_f32 && is_pair_in_reach(args)));
}

std::vector<ProductTile> turned_tiles() {
  std::vector<ProductTile> tiles;
  const auto add = [&](int rows, int columns) {
    for (const int cluster_rows : {1, 2, 4}) {
      for (const bool shares : {false, true}) {
        tiles.push_back(
            {.rows = rows, .columns = columns, .cluster_rows = cluster_rows, .shares = shares, .turned = true});
      }
    }
  };
  for (const int rows : kTwoWorkers) add(rows, 128);
  for (const int rows : kThreeWorkers) add(rows, 192);
  return tiles;
}

cudaError_t launch_product_turned(const ProductArgs& args, ProductTile tile, cudaStream_t stream) {
  switch (tile.rows * 1000 + tile.columns) {
    case 64128:
      return launch<64, 2>(args, tile, stream);
    case 80128:
      return launch<80, 2>(args, tile, stream);
    case 88128:
      return launch<88, 2>(args, tile, stream);
    case 96128:
      return launch<96, 2>(args, tile, stream);
    case 112128:
      return launch<112, 2>(args, tile, stream);
    case 128128:
      return launch<128, 2>(args, tile, stream);
    case 128192:
      return launch<128, 3>(args, tile, stream);
    case 144192:
      return launch<144, 3>(args, tile, stream);
    case 160192:
      return launch<160, 3>(args, tile, stream);
    case 176192:
      return launch<176, 3>(args, tile, stream);
    case 192192:
      return launch<192, 3>(args, tile, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace clef::cuda
