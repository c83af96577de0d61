// Matrix products on Hopper's tensor cores, with what follows a product done before it is stored.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace clef::cuda {

// What is done with a product before it is stored.
enum class Follow { store, add, swiglu, gelu_erf, gelu_tanh };

// y = follow(alpha * row_scale * (x * w^T) + bias); with `add` the y that was there joins before the bias. The gelus
// are left to a kernel of their own (products.h). x [rows, planes * depth_stride] f16: with two planes, x = first +
// second. w [columns, depth] f16; with swiglu, w is the gate's and w_up the other's. Sums run over the depth in steps
// of 16, ascending, first plane before second, in one f32 accumulator, whatever the tile: a row's bits depend on
// nothing but the row.
struct ProductArgs {
  const __half* x = nullptr;
  std::int64_t x_stride = 0;  // elements; a multiple of 8, as depth
  int planes = 1;
  std::int64_t plane_depth = 0;  // columns of a plane, a multiple of 64; with one plane anything
  const __half* w = nullptr;
  const __half* w_up = nullptr;
  void* y = nullptr;
  std::int64_t y_stride = 0;
  bool y_is_f32 = false;
  std::int64_t rows = 0, columns = 0, depth = 0;
  float alpha = 1;
  const float* row_scale = nullptr;  // [rows] or none
  const float* bias = nullptr;       // [columns] or none
  Follow follow = Follow::store;
};

// cudaErrorInvalidValue for a gelu, for adding to an f16 y, where strides or depth are not multiples of 8 or a pointer
// lies not on 16 bytes.
cudaError_t launch_product_sm90(const ProductArgs& args, cudaStream_t stream);

// How the work is shared out; no bit depends on it. A block takes tiles of 128 rows and `columns`, 96, 128, 192 or 256
// (with swiglu half as many of y); a cluster is one or two rows of one, two or four such blocks.
struct ProductTile {
  int columns = 256;
  int cluster_rows = 1, cluster_columns = 1;
};
// For tests and measurements: with the tile chosen. swiglu takes no 96.
cudaError_t launch_product_sm90(const ProductArgs& args, ProductTile tile, cudaStream_t stream);

}  // namespace clef::cuda
