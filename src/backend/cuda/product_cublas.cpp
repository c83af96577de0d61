// Products by cuBLASLt, for GPUs that are not Hopper's: what is asked for, and what stands around it.
#include <algorithm>

#include "backend/cuda/products.h"

namespace clef::cuda {

namespace {

// Rows of a large matrix are taken so many at a time where a product needs memory beside its output.
constexpr std::int64_t kChunkRows = 8192;

void multiply(const Product& product, Context& context) {
  if (!context.failed()) context.check(context.matmul.run(product, context.stream));
}

// y = follow(x * [weights]^T + bias) with an f32 x: two products, of its planes, into f32.
void run_planes(const ProductOp& op, Context& context) {
  const std::int64_t columns = op.follow == Follow::swiglu ? 2 * op.y.cols : op.y.cols, depth = op.x.cols;
  for (std::int64_t first = 0; first < op.y.rows && !context.failed(); first += kChunkRows) {
    const std::int64_t rows = std::min(kChunkRows, op.y.rows - first), all = std::max(rows, kFewestRows);
    const Planes planes = make_planes(op.x.row_range(first, rows), all, depth, nullptr, context);
    auto* product = context.products.get<float>(all * columns, context);
    if (context.failed()) return;
    std::int64_t column = 0;
    for (const Tensor& w : joined(op.weights)) {
      Product p{.rows = all,
                .columns = w.rows,
                .depth = depth,
                .x = planes.values,
                .x_stride = 2 * depth,
                .w = w.address(),
                .y = product + column,
                .y_stride = columns,
                .y_is_f32 = true,
                .alpha = scale_of(w),
                .beta = 0};
      multiply(p, context);
      p.x = planes.values + depth;
      p.beta = 1;
      multiply(p, context);
      column += w.rows;
    }
    follow_f32(op.y.row_range(first, rows), product, columns, planes.row_scale, floats(op.bias), op.follow, context);
  }
}

// FP16 rows into memory beside the output, and from there what follows. Padded, too few rows get the bits that they
// have among many.
void run_halves(const ProductOp& op, Context& context) {
  const std::int64_t columns = op.follow == Follow::swiglu ? 2 * op.y.cols : op.y.cols;
  const std::int64_t element = op.y.dtype == DType::f32 ? 4 : 2;
  std::int64_t rows = 0;
  for (std::int64_t first = 0; first < op.y.rows && !context.failed(); first += rows) {
    // A last chunk of few rows joins the one before.
    rows = op.y.rows - first < kChunkRows + kFewestRows ? op.y.rows - first : kChunkRows;
    const Tensor x = op.x.row_range(first, rows), y = op.y.row_range(first, rows);
    const std::int64_t all = std::max(rows, kFewestRows);
    const auto* input = reinterpret_cast<const __half*>(x.address());
    std::int64_t stride = x.stride;
    if (all != rows) {
      auto* copy = context.planes.get<__half>(all * x.cols, context);
      if (context.failed()) return;
      copy_padded(copy, x, all, context);
      input = copy;
      stride = x.cols;
    }
    auto* product = context.products.get<std::byte>(all * columns * element, context);
    if (context.failed()) return;
    std::int64_t column = 0;
    for (const Tensor& w : joined(op.weights)) {
      multiply({.rows = all,
                .columns = w.rows,
                .depth = x.cols,
                .x = input,
                .x_stride = stride,
                .w = w.address(),
                .y = product + column * element,
                .y_stride = columns,
                .y_is_f32 = element == 4,
                .alpha = scale_of(w) * op.alpha},
               context);
      column += w.rows;
    }
    if (element == 4) {
      follow_f32(y, reinterpret_cast<const float*>(product), columns, nullptr, floats(op.bias), op.follow, context);
    } else {
      follow_f16(y, reinterpret_cast<const __half*>(product), columns, floats(op.bias), op.follow, context);
    }
  }
}

}  // namespace

void run_cublas(const ProductOp& op, Context& context) {
  op.x.dtype == DType::f32 ? run_planes(op, context) : run_halves(op, context);
}

}  // namespace clef::cuda
