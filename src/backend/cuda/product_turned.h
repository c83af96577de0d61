// The product for Hopper in turned tiles, whose rows are weights and whose columns are y's rows: for few rows, of which
// a tile may then have any eight ("swap AB" elsewhere). Part of product_sm90.h; the bits are those of every other tile.
#pragma once

#include "backend/cuda/product_sm90.h"

namespace clef::cuda {

// Whether they can do this product: it has outputs that lie on whole words, in sixteens, and of swiglu f16 ones.
bool can_be_turned(const ProductArgs& args);
std::vector<ProductTile> turned_tiles();  // all there are
// For launch_product_sm90, which has looked whether it can be done.
cudaError_t launch_product_turned(const ProductArgs& args, ProductTile tile, cudaStream_t stream);

}  // namespace clef::cuda
