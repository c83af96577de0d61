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
  static constexpr std::size_t kSums = std::size_t{kMostBlocks} * 192 * 192, kMarks = 512;
  float* sums = nullptr;      // [kSums], or none: then no tile is shared
  unsigned* marks = nullptr;  // [kMarks], zero at first
  unsigned launch = 0;        // another one each time, not zero
};

// Of a remainder in f16: what FP16 loses of a value is then no larger than the value, and seldom a subnormal.
inline constexpr float kRemainderScale = 4096;

// y = follow(alpha * row_scale * (x * w^T) + bias); with `add` the y that was there joins before the bias. gelu_erf,
// and gelu_tanh of an f32 y, are left to a kernel of their own (products.h). x [rows, planes * depth_stride] f16: with
// two planes, x = first + second. w [columns, depth] f16; with swiglu, w is the gate's and w_up the other's. Sums run
// over the depth in steps of 16, ascending, first plane before second, in one f32 accumulator, whatever the tile: a
// row's bits depend on nothing but the row. A low part's sum, in steps of 32, is there before: tensor cores add E4M3's
// products with few bits, which are enough while the sum is small.
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
  // With two planes or a low part: [rows] or none, 0 where the second plane or the low part is zero. Tiles of such rows
  // alone do without it.
  const int* precise = nullptr;
  // With one plane, what x lost as f16: [rows, depth] E4M3, rows low_stride apart; x + low_scales * low is meant. Zero
  // in rows that `precise` marks with 0. w_low and w_up_low are w and w_up as E4M3, of another scale: w = low_alpha *
  // w_low. `precise` is read before the kernel ahead has ended, as the weights are.
  const std::uint8_t* low = nullptr;
  std::int64_t low_stride = 0;        // bytes; a multiple of 16
  const float* low_scales = nullptr;  // [rows], powers of two
  const std::uint8_t* w_low = nullptr;
  const std::uint8_t* w_up_low = nullptr;
  std::int64_t w_low_stride = 0;  // bytes; a multiple of 16
  float low_alpha = 1;            // a power of two
  // With low and swiglu into f16, or none: what y lost, times kRemainderScale, [rows, columns], of the tiles with a
  // precise row.
  __half* remainder = nullptr;
  std::int64_t remainder_stride = 0;
  // w has gate_columns further rows, whose products go to gates [rows, gate_columns] in f32; with `store` and no bias.
  float* gates = nullptr;
  std::int64_t gates_stride = 0, gate_columns = 0;  // even
  Handover handover = {};
};

// cudaErrorInvalidValue for those gelus, for sharing without a place to hand over, for adding to an f16 y, where
// strides or depth are not multiples of 8 or a pointer lies not on 16 bytes.
cudaError_t launch_product_sm90(const ProductArgs& args, cudaStream_t stream);

// How the work is shared out; no bit depends on it. A block takes tiles of `rows` by `columns` (with swiglu half as
// many of y's); a cluster is one or two rows of one, two or four such blocks. With fewer tiles than blocks none is
// shared.
struct ProductTile {
  int rows = 128;
  int columns = 256;
  int cluster_rows = 1, cluster_columns = 1;
  bool shares = false;  // the tiles of the last rounds are shared out evenly
};
std::vector<ProductTile> product_tiles(Follow follow);  // all there are
// For tests and measurements: with the tile chosen.
cudaError_t launch_product_sm90(const ProductArgs& args, ProductTile tile, cudaStream_t stream);

}  // namespace clef::cuda
