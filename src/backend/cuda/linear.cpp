// Matrix products on the GPU. Hopper has a kernel of its own; other GPUs use cuBLASLt.
//
// Weights that were adopted one after another lie so in memory, and weights with one input are then one product.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backend/cuda/few_rows.h"
#include "backend/cuda/products.h"
#include "backend/cuda/run.h"

namespace clef::cuda {

namespace {

// Planes of an f32 input are made for so many rows at a time.
constexpr std::int64_t kPlaneRows = 32768;
constexpr std::int64_t kPlaneStep = 64;  // a plane's depth is a multiple of it

// The product with weights that follow each other in memory, or with their E4M3 copies, into columns of y.
void launch_columns(const ProductOp& op, ProductArgs args, const Tensor& w, const Tensor& y, std::int64_t column,
                    Context& context) {
  if (args.is_e4m3) {
    args.w = low_of(w);
    args.w_stride = low_stride(w.cols);
    args.alpha = std::ldexp(args.alpha, -kLowWeightExponent);
  } else {
    args.w = w.address();
    args.alpha = scale_of(w) * op.alpha;
  }
  args.columns = w.rows - args.gate_columns;
  args.y = y.address() + column * static_cast<std::int64_t>(size_of(y.dtype));
  args.y_stride = y.stride;
  args.y_is_f32 = y.dtype == DType::f32;
  if (op.bias && !args.is_e4m3) args.bias = floats(op.bias) + column;
  args.handover = context.next_handover();
  if (context.failed()) return;
  context.check(launch_product_sm90(args, context.stream), "a product");
}

// With all weights that the op has, side by side in y and in its gates.
void launch_all(const ProductOp& op, ProductArgs args, Context& context) {
  std::vector<Tensor> all = op.weights;
  all.insert(all.end(), op.gate_weights.begin(), op.gate_weights.end());
  const std::vector<Tensor> whole = joined(all);
  if (op.gates && whole.size() == 1) {
    args.gates = reinterpret_cast<float*>(op.gates.address());
    args.gates_stride = op.gates.stride;
    args.gate_columns = op.gates.cols;
    return launch_columns(op, args, whole.front(), op.y, 0, context);
  }
  const auto side_by_side = [&](const Tensor& y, const std::vector<Tensor>& weights) {
    std::int64_t column = 0;
    for (const Tensor& w : joined(weights)) {
      launch_columns(op, args, w, y, column, context);
      column += w.rows;
    }
  };
  side_by_side(op.y, op.weights);
  side_by_side(op.gates, op.gate_weights);
}

void launch(const ProductOp& op, ProductArgs args, Context& context) {
  args.rows = op.y.rows;
  args.depth = op.x.cols;
  args.follow = op.follow;
  if (op.follow != Follow::swiglu) return launch_all(op, args, context);
  args.w_up = op.weights[1].address();
  CHECK(scale_of(op.weights[0]) == scale_of(op.weights[1]));
  launch_columns(op, args, op.weights[0], op.y, 0, context);
}

const int* numbers(const Tensor& t) { return t ? reinterpret_cast<const int*>(t.address()) : nullptr; }

// What the low part of an input brings: added to y's precise rows, which hold the rest; or for swiglu, which needs it
// before it is done, into low_sums.
void launch_low(const ProductOp& op, Context& context) {
  ProductArgs args{.x = op.low.values.address(),
                   .x_stride = op.low.values.stride,
                   .is_e4m3 = true,
                   .rows = op.low.values.rows,
                   .depth = op.low.values.cols,
                   .row_scale = floats(op.low.scales)};
  if (op.follow == Follow::swiglu) {
    ProductOp sums = op;
    sums.y = op.low_sums;
    args.alpha = kRemainderScale;
    return launch_all(sums, args, context);
  }
  if (op.precise) args.to_rows = numbers(op.precise.rows);
  args.follow = Follow::add;
  launch_all(op, args, context);
}

void run_hopper(ProductOp op, Context& context) {
  if (op.follow == Follow::gelu_erf || (op.follow == Follow::gelu_tanh && op.y.dtype == DType::f32)) {
    const Follow gelu = std::exchange(op.follow, Follow::store);
    run_hopper(op, context);
    return follow_in_place(op.y, gelu, context);
  }
  if (op.x.dtype == DType::f16) {
    ProductArgs args{.x = op.x.address(), .x_stride = op.x.stride};
    const bool is_swiglu = op.follow == Follow::swiglu;
    if (op.low && is_swiglu) {
      launch_low(op, context);
      if (op.precise) args.places = numbers(op.precise.places);
      args.low_sums = reinterpret_cast<const __half*>(op.low_sums.address());
      args.remainder = reinterpret_cast<__half*>(op.remainder.address());
    }
    if (!context.failed()) launch(op, args, context);
    if (op.low && !is_swiglu && !context.failed()) launch_low(op, context);
    if (op.y_low && !context.failed()) make_low(op.y_low, op.remainder, op.precise, context);
    return;
  }
  const std::int64_t depth = (op.x.cols + kPlaneStep - 1) / kPlaneStep * kPlaneStep;
  for (std::int64_t first = 0; first < op.y.rows && !context.failed(); first += kPlaneRows) {
    const std::int64_t rows = std::min(kPlaneRows, op.y.rows - first);
    const int* places = op.precise ? numbers(op.precise.places) + first : nullptr;
    const Planes planes = make_planes(op.x.row_range(first, rows), rows, depth, places, context);
    if (context.failed()) return;
    ProductOp part = op;
    part.y = op.y.row_range(first, rows);
    part.x = op.x.row_range(first, rows);
    if (op.gates) part.gates = op.gates.row_range(first, rows);
    launch(
        part,
        {.x = planes.values, .x_stride = 2 * depth, .planes = 2, .plane_depth = depth, .row_scale = planes.row_scale},
        context);
  }
}

void run_few(const ProductOp& op, Context& context) {
  std::int64_t column = 0;
  for (const Tensor& w : joined(op.weights)) {
    context.check(launch_few_rows({.y = reinterpret_cast<float*>(op.y.address()) + column,
                                   .y_stride = op.y.stride,
                                   .x = floats(op.x),
                                   .x_stride = op.x.stride,
                                   .w = reinterpret_cast<const __half*>(w.address()),
                                   .bias = op.bias ? floats(op.bias) + column : nullptr,
                                   .rows = op.y.rows,
                                   .columns = w.rows,
                                   .depth = op.x.cols,
                                   .alpha = scale_of(w),
                                   .follow = op.follow},
                                  context.stream),
                  "a product of few rows");
    column += w.rows;
  }
}

// Whoever gives inputs a low part has asked has_low_parts(), and told adopt_low() of the weights.
bool takes_low_part(const ProductOp& op, Context& context) {
  std::vector<Tensor> weights = op.weights;
  weights.insert(weights.end(), op.gate_weights.begin(), op.gate_weights.end());
  const bool has_copies =
      std::all_of(weights.begin(), weights.end(), [](const Tensor& w) { return low_of(w) != nullptr; });
  const bool fits_words = !op.y_low || op.y.cols % 8 == 0;
  if (context.is_hopper && has_copies && fits_words) return true;
  context.check(Error{Errc::unsupported,
                      "cuda: a product whose input has a low part: it needs a Hopper GPU, weights "
                      "prepared for it and columns in eights"});
  return false;
}

bool is_depth_of_products(std::int64_t depth, Context& context) {
  if (depth % 8 == 0) return true;
  context.check(Error{Errc::unsupported, fmt::format("cuda: a product of depth {}: expected a multiple of 8", depth)});
  return false;
}

void run_product(const ProductOp& op, Context& context) {
  if (op.y.rows == 0 || context.failed() || !is_depth_of_products(op.x.cols, context)) return;
  if (op.low && !takes_low_part(op, context)) return;
  if (op.few && op.x.dtype == DType::f32 && op.x.cols <= kMostFewRowsDepth) return run_few(op, context);
  context.is_hopper ? run_hopper(op, context) : run_cublas(op, context);
}

// Neither has a low copy, or they follow each other too.
bool low_joined(const Tensor& last, const Tensor& w) {
  if (low_of(last) == nullptr || low_of(w) == nullptr) return low_of(last) == low_of(w);
  return low_of(last) + last.rows * low_stride(last.cols) == low_of(w);
}

}  // namespace

std::vector<Tensor> joined(const std::vector<Tensor>& weights) {
  std::vector<Tensor> result;
  for (const Tensor& w : weights) {
    if (!result.empty()) {
      Tensor& last = result.back();
      const auto bytes = static_cast<std::size_t>(last.rows * last.cols) * size_of(last.dtype);
      if (last.address() + bytes == w.address() && scale_of(last) == scale_of(w) && last.cols == w.cols &&
          low_joined(last, w)) {
        last.rows += w.rows;
        continue;
      }
    }
    result.push_back(w);
  }
  return result;
}

Planes make_planes(const Tensor& x, std::int64_t rows, std::int64_t depth, const int* places, Context& context) {
  Planes planes{.values = nullptr, .row_scale = nullptr, .rows = rows, .depth = depth};
  planes.values = context.planes.get<__half>(rows * (2 * depth + 2), context);
  if (context.failed()) return planes;
  planes.row_scale = reinterpret_cast<float*>(planes.values + rows * 2 * depth);
  split(planes, x, places, context);
  return planes;
}

void run(const Linear& op, Context& context) {
  run_product({.y = op.y, .x = op.x, .weights = {op.w}, .bias = op.bias, .few = op.items}, context);
}
void run(const Projections& op, Context& context) {
  ProductOp product{.y = op.y,
                    .x = op.x,
                    .weights = parts(op),
                    .bias = op.bias,
                    .precise = op.precise,
                    .low = op.low,
                    .few = op.items};
  if (context.is_hopper) {
    product.gates = op.gates;
    product.gate_weights = gate_parts(op);
    return run_product(product, context);
  }
  run_product(product, context);
  if (op.gates) run_product({.y = op.gates, .x = op.x, .weights = gate_parts(op)}, context);
}
void run(const LinearAdd& op, Context& context) {
  run_product({.y = op.y,
               .x = op.x,
               .weights = {op.w},
               .bias = op.bias,
               .follow = Follow::add,
               .precise = op.precise,
               .low = op.low,
               .few = op.items},
              context);
}
void run(const LinearGelu& op, Context& context) {
  const Follow follow = op.gelu == Gelu::erf ? Follow::gelu_erf : Follow::gelu_tanh;
  run_product({.y = op.y, .x = op.x, .weights = {op.w}, .bias = op.bias, .follow = follow, .few = op.items}, context);
}
void run(const LinearSwiglu& op, Context& context) {
  run_product({.y = op.y,
               .x = op.x,
               .weights = {op.gate, op.up},
               .follow = Follow::swiglu,
               .precise = op.precise,
               .low = op.low,
               .y_low = op.y_low,
               .low_sums = op.low_sums,
               .remainder = op.remainder},
              context);
}

void run(const PatchEmbed& op, Context& context) {
  constexpr std::int64_t kRows = 16384;
  const std::int64_t width = op.levels.cols;
  if (!is_depth_of_products(width, context)) return;
  for (std::int64_t first = 0; first < op.y.rows && !context.failed(); first += kRows) {
    const std::int64_t rows = std::min(kRows, op.y.rows - first);
    auto* pixels = context.pixels.get<__half>(rows * width, context);
    if (context.failed()) return;
    widen_levels(pixels, op.levels.row_range(first, rows), context);
    Buffer view(pixels, static_cast<std::size_t>(rows * width) * sizeof(__half));
    const Tensor x{.buffer = &view, .rows = rows, .cols = width, .stride = width, .dtype = DType::f16};
    // Levels enter as 255 times the pixel.
    run_product({.y = op.y.row_range(first, rows), .x = x, .weights = {op.w}, .bias = op.bias, .alpha = 1.0F / 255.0F},
                context);
  }
}

}  // namespace clef::cuda
