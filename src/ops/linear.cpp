#include "ops/linear.h"

#include <numbers>

#include "ops/define.h"

namespace clef {

namespace {

bool fits(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  return w && is_matrix(y, x.rows, w.rows, DType::f32) && is_matrix(x, y.rows, w.cols, DType::f32) &&
         is_weight(w, w.rows, w.cols) && is_optional_vector(bias, w.rows);
}

double product(const Tensor& x, const Tensor& w, const Tensor& bias, std::int64_t row, std::int64_t n) {
  double sum = bias ? definition::at(bias, 0, n) : 0.0;
  for (std::int64_t k = 0; k < x.cols; ++k) sum += definition::at(x, row, k) * definition::at(w, n, k);
  return sum;
}

double gelu(double x, Gelu kind) {
  if (kind == Gelu::erf) return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

}  // namespace

bool valid(const Linear& op) { return fits(op.y, op.x, op.w, op.bias); }
bool valid(const LinearAdd& op) { return fits(op.y, op.x, op.w, op.bias); }
bool valid(const LinearGelu& op) { return fits(op.y, op.x, op.w, op.bias); }
bool valid(const LinearSwiglu& op) {
  return fits(op.y, op.x, op.gate, {}) && fits(op.y, op.x, op.up, {}) && op.gate.dtype == op.up.dtype;
}

void define(const Linear& op) {
  for (std::int64_t r = 0; r < op.y.rows; ++r) {
    for (std::int64_t n = 0; n < op.y.cols; ++n) definition::put(op.y, r, n, product(op.x, op.w, op.bias, r, n));
  }
}

void define(const LinearAdd& op) {
  for (std::int64_t r = 0; r < op.y.rows; ++r) {
    for (std::int64_t n = 0; n < op.y.cols; ++n) {
      definition::put(op.y, r, n, definition::at(op.y, r, n) + product(op.x, op.w, op.bias, r, n));
    }
  }
}

void define(const LinearSwiglu& op) {
  for (std::int64_t r = 0; r < op.y.rows; ++r) {
    for (std::int64_t n = 0; n < op.y.cols; ++n) {
      definition::put(op.y, r, n, definition::silu(product(op.x, op.gate, {}, r, n)) * product(op.x, op.up, {}, r, n));
    }
  }
}

void define(const LinearGelu& op) {
  for (std::int64_t r = 0; r < op.y.rows; ++r) {
    for (std::int64_t n = 0; n < op.y.cols; ++n) {
      definition::put(op.y, r, n, gelu(product(op.x, op.w, op.bias, r, n), op.gelu));
    }
  }
}

}  // namespace clef
