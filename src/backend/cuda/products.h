// The kernels around the matrix products.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <vector>

#include "backend/cuda/context.h"
#include "backend/cuda/product_sm90.h"
#include "ops/low_part.h"

namespace clef::cuda {

// An f32 matrix as two FP16 ones, side by side, and a scale a row; what lies past the matrix's rows and columns is
// zero.
struct Planes {
  __half* values;    // [rows, 2 * depth]: high, then low
  float* row_scale;  // [rows]; x = row_scale * (high + low)
  std::int64_t rows;
  std::int64_t depth;  // at least the matrix's columns
};
// Rows whose place is negative have a second plane of zeros; null: none has.
void split(const Planes& to, const Tensor& x, const int* places, Context& context);
// In the context's memory, until the next are made.
Planes make_planes(const Tensor& x, std::int64_t rows, std::int64_t depth, const int* places, Context& context);

// y = follow(alpha * x * [weights]^T + bias); with swiglu the weights are gate and up.
struct ProductOp {
  Tensor y, x;
  std::vector<Tensor> weights;
  Tensor bias = {};
  Follow follow = Follow::store;
  Tensor gates = {};
  std::vector<Tensor> gate_weights = {};
  PreciseRows precise = {};
  LowIn low = {};
  LowOut y_low = {};                     // with swiglu and low
  Tensor low_sums = {}, remainder = {};  // with y_low
  bool few = false;  // rows of questions or options: an arithmetic of its own, whatever their number
  float alpha = 1;
};
void run_cublas(const ProductOp& op, Context& context);

// The low part of an f16 y from what a product left of it in `remainder` (ProductArgs).
void make_low(const LowOut& low, const Tensor& remainder, const PreciseRows& precise, Context& context);

// Several weights [n_i, depth] as one, where they and their low copies follow each other in memory and have one scale.
std::vector<Tensor> joined(const std::vector<Tensor>& weights);
inline const float* floats(const Tensor& t) { return t ? reinterpret_cast<const float*>(t.address()) : nullptr; }

// to [levels.rows, levels.cols] = 2 * level - 255; on 16 bytes, the levels without gaps and their columns in eights
void widen_levels(__half* to, const Tensor& levels, Context& context);
// to [padded_rows, x.cols], zero past x
void copy_padded(__half* to, const Tensor& x, std::int64_t padded_rows, Context& context);

// y from product [y.rows, y.cols], or with swiglu [y.rows, 2 * y.cols]; row_scale and bias may be null.
void follow_f32(const Tensor& y, const float* product, std::int64_t product_stride, const float* row_scale,
                const float* bias, Follow kind, Context& context);
void follow_f16(const Tensor& y, const __half* product, std::int64_t product_stride, const float* bias, Follow kind,
                Context& context);
// y = gelu(y)
void follow_in_place(const Tensor& y, Follow gelu, Context& context);

}  // namespace clef::cuda
