// The kernels around the matrix products.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/context.h"

namespace clef::cuda {

// What is done with a product before it is stored.
enum class Follow { store, add, swiglu, gelu_erf, gelu_tanh };

// An f32 matrix as two FP16 ones and a scale a row; rows past the matrix's are zero.
struct Planes {
  __half *high, *low;  // [rows, depth]
  float* row_scale;    // [rows]; x = row_scale * (high + low)
  std::int64_t rows;
};
void split(const Planes& to, const Tensor& x, Context& context);
// to [padded_rows, levels.cols] = 2 * level - 255
void widen_levels(__half* to, const Tensor& levels, std::int64_t padded_rows, Context& context);
// to [padded_rows, x.cols], zero past x
void copy_padded(__half* to, const Tensor& x, std::int64_t padded_rows, Context& context);

// y from product [y.rows, y.cols], or with swiglu [y.rows, 2 * y.cols]; row_scale and bias may be null.
void follow_f32(const Tensor& y, const float* product, std::int64_t product_stride, const float* row_scale,
                const float* bias, Follow kind, Context& context);
void follow_f16(const Tensor& y, const __half* product, std::int64_t product_stride, const float* bias, Follow kind,
                Context& context);
void follow_swiglu(const Tensor& y, const __half* product, std::int64_t product_stride, Context& context);
// y = follow(y + bias), y f16, kind store or one of the gelus
void follow_in_place(const Tensor& y, const float* bias, Follow kind, Context& context);

}  // namespace clef::cuda
