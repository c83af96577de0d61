// Matrix products on the GPU: which products cuBLASLt is asked for, and what stands around them.
//
// Weights that were adopted one after another lie so in memory, and weights with one input are then one product.
#include <algorithm>

#include "backend/cuda/products.h"
#include "backend/cuda/run.h"

namespace clef::cuda {

namespace {

// Rows of a large matrix are taken so many at a time where a product needs memory beside its output.
constexpr std::int64_t kChunkRows = 8192;

std::int64_t padded(std::int64_t rows) { return std::max(rows, kFewestRows); }

template <typename T>
T* get(Workspace& workspace, std::int64_t count, Context& context) {
  void* memory = nullptr;
  context.check(workspace.get(static_cast<std::size_t>(count) * sizeof(T), &memory), "memory for a product");
  return static_cast<T*>(memory);
}

const float* floats(const Tensor& t) { return t ? reinterpret_cast<const float*>(t.address()) : nullptr; }

void multiply(const Product& product, Context& context) {
  if (!context.failed()) context.check(context.matmul.run(product, context.stream));
}

// Several weights [n_i, depth] as one, when they follow each other in memory and have one scale.
std::vector<Tensor> joined(const std::vector<Tensor>& weights) {
  std::vector<Tensor> result;
  for (const Tensor& w : weights) {
    if (!result.empty()) {
      Tensor& last = result.back();
      const auto bytes = static_cast<std::size_t>(last.rows * last.cols) * size_of(last.dtype);
      if (last.address() + bytes == w.address() && scale_of(last) == scale_of(w) && last.cols == w.cols) {
        last.rows += w.rows;
        continue;
      }
    }
    result.push_back(w);
  }
  return result;
}

// y = follow(x * [weights]^T + bias) with an f32 x: two products, of its planes, into f32.
void run_planes(const Tensor& y, const Tensor& x, const std::vector<Tensor>& weights, const Tensor& bias, Follow follow,
                Context& context) {
  const std::int64_t columns = follow == Follow::swiglu ? 2 * y.cols : y.cols;
  for (std::int64_t first = 0; first < y.rows && !context.failed(); first += kChunkRows) {
    const std::int64_t rows = std::min(kChunkRows, y.rows - first), all = padded(rows);
    auto* high = get<__half>(context.planes, all * (2 * x.cols + 2), context);
    auto* product = get<float>(context.products, all * columns, context);
    if (context.failed()) return;
    const Planes planes{high, high + all * x.cols, reinterpret_cast<float*>(high + all * 2 * x.cols), all};
    split(planes, x.row_range(first, rows), context);
    std::int64_t column = 0;
    for (const Tensor& w : joined(weights)) {
      Product p{.rows = all,
                .columns = w.rows,
                .depth = x.cols,
                .x = planes.high,
                .x_stride = x.cols,
                .w = w.address(),
                .y = product + column,
                .y_stride = columns,
                .y_is_f32 = true,
                .alpha = scale_of(w),
                .beta = 0};
      multiply(p, context);
      p.x = planes.low;
      p.beta = 1;
      multiply(p, context);
      column += w.rows;
    }
    follow_f32(y.row_range(first, rows), product, columns, planes.row_scale, floats(bias), follow, context);
  }
}

// y = x * w^T (+ y when adding) with an f16 x of enough rows.
void run_halves(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, bool add, Context& context) {
  multiply({.rows = y.rows,
            .columns = w.rows,
            .depth = x.cols,
            .x = x.address(),
            .x_stride = x.stride,
            .w = w.address(),
            .y = y.address(),
            .y_stride = y.stride,
            .y_is_f32 = y.dtype == DType::f32,
            .alpha = scale_of(w),
            .beta = add ? 1.0F : 0.0F,
            .bias = floats(bias)},
           context);
}

// Too few rows for cuBLASLt to give them the bits they have among many: padded copies.
void run_few(const Tensor& y, const Tensor& x, const std::vector<Tensor>& weights, const Tensor& bias, Follow follow,
             Context& context) {
  const std::int64_t columns = follow == Follow::swiglu ? 2 * y.cols : y.cols;
  auto* rows = get<__half>(context.planes, kFewestRows * x.cols, context);
  const std::size_t element = y.dtype == DType::f32 ? 4 : 2;
  auto* product = get<std::byte>(context.products, kFewestRows * columns * static_cast<std::int64_t>(element), context);
  if (context.failed()) return;
  copy_padded(rows, x, kFewestRows, context);
  std::int64_t column = 0;
  for (const Tensor& w : joined(weights)) {
    multiply({.rows = kFewestRows,
              .columns = w.rows,
              .depth = x.cols,
              .x = rows,
              .x_stride = x.cols,
              .w = w.address(),
              .y = product + static_cast<std::size_t>(column) * element,
              .y_stride = columns,
              .y_is_f32 = y.dtype == DType::f32,
              .alpha = scale_of(w)},
             context);
    column += w.rows;
  }
  if (y.dtype == DType::f32) {
    follow_f32(y, reinterpret_cast<const float*>(product), columns, nullptr, floats(bias), follow, context);
  } else {
    follow_f16(y, reinterpret_cast<const __half*>(product), columns, floats(bias), follow, context);
  }
}

bool is_split(const Tensor& x) { return x.dtype == DType::f32; }
bool has_few_rows(const Tensor& x) { return x.rows < kFewestRows; }

}  // namespace

void run(const Linear& op, Context& context) {
  if (op.y.rows == 0) return;
  if (is_split(op.x)) return run_planes(op.y, op.x, {op.w}, op.bias, Follow::store, context);
  if (has_few_rows(op.x)) return run_few(op.y, op.x, {op.w}, op.bias, Follow::store, context);
  if (op.y.dtype == DType::f32) return run_halves(op.y, op.x, op.w, op.bias, false, context);
  run_halves(op.y, op.x, op.w, {}, false, context);
  if (op.bias) follow_in_place(op.y, floats(op.bias), Follow::store, context);
}

void run(const Projections& op, Context& context) {
  if (op.y.rows == 0) return;
  if (is_split(op.x)) return run_planes(op.y, op.x, parts(op), {}, Follow::store, context);
  if (has_few_rows(op.x)) return run_few(op.y, op.x, parts(op), {}, Follow::store, context);
  std::int64_t column = 0;
  for (const Tensor& w : joined(parts(op))) {
    run_halves(op.y.col_range(column, w.rows), op.x, w, {}, false, context);
    column += w.rows;
  }
}

void run(const LinearAdd& op, Context& context) {
  if (op.y.rows == 0) return;
  if (is_split(op.x)) return run_planes(op.y, op.x, {op.w}, op.bias, Follow::add, context);
  if (has_few_rows(op.x)) return run_few(op.y, op.x, {op.w}, op.bias, Follow::add, context);
  run_halves(op.y, op.x, op.w, op.bias, true, context);
}

void run(const LinearGelu& op, Context& context) {
  const Follow follow = op.gelu == Gelu::erf ? Follow::gelu_erf : Follow::gelu_tanh;
  if (op.y.rows == 0) return;
  if (is_split(op.x)) return run_planes(op.y, op.x, {op.w}, op.bias, follow, context);
  if (has_few_rows(op.x)) return run_few(op.y, op.x, {op.w}, op.bias, follow, context);
  run_halves(op.y, op.x, op.w, {}, false, context);
  follow_in_place(op.y, floats(op.bias), follow, context);
}

void run(const LinearSwiglu& op, Context& context) {
  if (op.y.rows == 0) return;
  if (is_split(op.x)) return run_planes(op.y, op.x, {op.gate, op.up}, {}, Follow::swiglu, context);
  if (has_few_rows(op.x)) return run_few(op.y, op.x, {op.gate, op.up}, {}, Follow::swiglu, context);
  std::int64_t rows = 0;
  for (std::int64_t first = 0; first < op.y.rows && !context.failed(); first += rows) {
    // A last chunk of few rows would get other bits: it joins the one before.
    rows = op.y.rows - first < kChunkRows + kFewestRows ? op.y.rows - first : kChunkRows;
    auto* product = get<__half>(context.products, rows * 2 * op.y.cols, context);
    if (context.failed()) return;
    std::int64_t column = 0;
    for (const Tensor& w : joined({op.gate, op.up})) {
      multiply({.rows = rows,
                .columns = w.rows,
                .depth = op.x.cols,
                .x = op.x.row_range(first, rows).address(),
                .x_stride = op.x.stride,
                .w = w.address(),
                .y = product + column,
                .y_stride = 2 * op.y.cols,
                .alpha = scale_of(w)},
               context);
      column += w.rows;
    }
    follow_swiglu(op.y.row_range(first, rows), product, 2 * op.y.cols, context);
  }
}

void run(const PatchEmbed& op, Context& context) {
  const std::int64_t width = op.levels.cols;
  for (std::int64_t first = 0; first < op.y.rows && !context.failed(); first += kChunkRows) {
    const std::int64_t rows = std::min(kChunkRows, op.y.rows - first), all = padded(rows);
    auto* pixels = get<__half>(context.planes, all * width, context);
    auto* product = get<float>(context.products, all * op.y.cols, context);
    if (context.failed()) return;
    widen_levels(pixels, op.levels.row_range(first, rows), all, context);
    multiply({.rows = all,
              .columns = op.w.rows,
              .depth = width,
              .x = pixels,
              .x_stride = width,
              .w = op.w.address(),
              .y = product,
              .y_stride = op.y.cols,
              .y_is_f32 = true,
              .alpha = scale_of(op.w) / 255.0F},  // levels enter as 255 times the pixel
             context);
    follow_f32(op.y.row_range(first, rows), product, op.y.cols, nullptr, floats(op.bias), Follow::store, context);
  }
}

}  // namespace clef::cuda
