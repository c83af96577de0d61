// Matrix products on Hopper's tensor cores, with what follows a product done before it is stored.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace clef::cuda {

// What is done with a product before it is stored.
enum class Follow { store, add, swiglu, gelu_erf, gelu_tanh };

// Where blocks that share a tile hand their sums over; for one launch at a time.
struct Handover {
  static constexpr int kMostBlocks = 132;  // on a GPU with more multiprocessors none is shared
  static constexpr std::size_t kSums = std::size_t{kMostBlocks} * 256 * 192, kMarks = 512;
  float* sums = nullptr;      // [kSums], or none: then no tile is shared
  unsigned* marks = nullptr;  // [kMarks], zero at first
  unsigned launch = 0;        // another one each time, not zero
};

// Of what FP16 loses, in f16: it is then no larger than the value that lost it, and seldom a subnormal.
inline constexpr float kRemainderScale = 4096;

// y = follow(alpha * row_scale * (x * w^T) + bias); with `add` the y that was there joins before the bias. gelu_erf,
// and gelu_tanh of an f32 y, are left to a kernel of their own (products.h). x [rows, planes * depth_stride] f16: with
// two planes, x = first + second. w [columns, depth] f16; with swiglu, w is the gate's and w_up the other's. Sums run
// over the depth in steps of 16, ascending, first plane before second, in one f32 accumulator, whatever the tile: a
// row's bits depend on nothing but the row.
struct ProductArgs {
  const void* x = nullptr;
  std::int64_t x_stride = 0;  // elements; a multiple of 8, as depth
  int planes = 1;
  std::int64_t plane_depth = 0;  // columns of a plane, a multiple of 64; with one plane anything
  const void* w = nullptr;
  const void* w_up = nullptr;
  // x and w are E4M3, with one plane and not for swiglu; strides are multiples of 16, and steps are of 32. Tensor cores
  // add such products with few bits: for the low parts of inputs, whose sums are small.
  bool is_e4m3 = false;
  std::int64_t w_stride = 0;  // elements; the depth where 0
  void* y = nullptr;
  std::int64_t y_stride = 0;
  bool y_is_f32 = false;
  std::int64_t rows = 0, columns = 0, depth = 0;
  float alpha = 1;
  const float* row_scale = nullptr;  // [rows] or none
  const float* bias = nullptr;       // [columns] or none
  Follow follow = Follow::store;
  // With add: [rows] or none, where row r's sums go in y and gates; each to another row.
  const int* to_rows = nullptr;
  // With swiglu into f16, or none: of the precise rows, low_sums [precise rows, 2 * columns] joins x * w^T and x *
  // w_up^T, side by side, and what y lost goes to remainder [precise rows, columns]; both are times kRemainderScale,
  // and rows follow each other. A row's place among them [rows], or -1; or none: all are.
  const __half* low_sums = nullptr;
  __half* remainder = nullptr;
  const int* places = nullptr;
  // w has gate_columns further rows, whose products go to gates [rows, gate_columns] in f32; with `store` or `add`,
  // which then adds here too, and no bias.
  float* gates = nullptr;
  std::int64_t gates_stride = 0, gate_columns = 0;  // even
  Handover handover = {};
};

// cudaErrorInvalidValue for those gelus, for sharing without a place to hand over, for adding to an f16 y, where
// strides or depth are no such multiples or a pointer lies not on 16 bytes. cudaErrorInvalidDevice on a device past
// kMostDevices (launch.h).
cudaError_t launch_product_sm90(const ProductArgs& args, cudaStream_t stream);

// How the work is shared out; no bit depends on it. A block takes tiles of `rows` by `columns` (with swiglu half as
// many of y's); a cluster is one or two rows of one, two or four such blocks, or of turned tiles one, two or four rows
// of one. With fewer tiles than blocks none is shared.
struct ProductTile {
  int rows = 128;
  int columns = 256;
  int cluster_rows = 1, cluster_columns = 1;
  bool shares = false;  // the tiles of the last rounds are shared out evenly
  bool turned = false;  // its rows are multiplied as columns (product_turned.h)
  bool operator==(const ProductTile&) const = default;
};
std::vector<ProductTile> product_tiles(const ProductArgs& args);  // all that can do it
ProductTile chosen_tile(const ProductArgs& args);                 // which is estimated to take the least time
ProductTile remembered_tile(const ProductArgs& args);             // the same, kept for a product that comes again
// For tests and measurements: with the tile chosen.
cudaError_t launch_product_sm90(const ProductArgs& args, ProductTile tile, cudaStream_t stream);

}  // namespace clef::cuda
