#include "ops/linear.h"

#include <numbers>

#include "ops/define.h"

namespace clef {

namespace {

bool fits(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias) {
  return y && w && same_rows(y, x) && y.cols == w.rows && x.cols == w.cols && is_activation(x.dtype) &&
         (y.dtype == x.dtype || y.dtype == DType::f32) && is_weight(w, w.rows, w.cols) &&
         is_optional_vector(bias, w.rows);
}

// Whether y's columns are the products of x with these weights, side by side.
bool side_by_side(const Tensor& y, const Tensor& x, const std::vector<Tensor>& weights) {
  std::int64_t columns = 0;
  for (const Tensor& w : weights) {
    if (!w || columns + w.rows > y.cols || !fits(y.col_range(columns, w.rows), x, w, {})) return false;
    columns += w.rows;
  }
  return columns == y.cols;
}

// What `precise` and `low` say fits x.
bool fits_rows(const PreciseRows& precise, const LowIn& low, const Tensor& x) {
  return are_rows_of(precise, x) && is_optional_low_part(low, x, precise);
}

double product(const Tensor& x, const Tensor& w, const Tensor& bias, std::int64_t row, std::int64_t n,
               const LowIn& low = {}, const PreciseRows& precise = {}) {
  double sum = bias ? definition::at(bias, 0, n) : 0.0;
  for (std::int64_t k = 0; k < x.cols; ++k) {
    sum += (definition::at(x, row, k) + definition::low_at(low, precise, row, k)) * definition::at(w, n, k);
  }
  return sum;
}

double gelu(double x, Gelu kind) {
  if (kind == Gelu::erf) return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

}  // namespace

bool valid(const Linear& op) { return fits(op.y, op.x, op.w, op.bias); }
bool valid(const Projections& op) {
  if (!op.y || !side_by_side(op.y, op.x, parts(op)) || !fits_rows(op.precise, op.low, op.x)) return false;
  if (!is_optional_vector(op.bias, op.y.cols)) return false;
  if (!op.gates) return !op.gate_first && !op.gate_second;
  return !op.bias && !op.items && op.gates.dtype == DType::f32 && side_by_side(op.gates, op.x, gate_parts(op));
}
bool valid(const LinearAdd& op) {
  return op.y.dtype == DType::f32 && fits(op.y, op.x, op.w, op.bias) && fits_rows(op.precise, op.low, op.x);
}
bool valid(const LinearGelu& op) { return op.y.dtype == op.x.dtype && fits(op.y, op.x, op.w, op.bias); }
bool valid(const LinearSwiglu& op) {
  return op.y.dtype == op.x.dtype && fits(op.y, op.x, op.gate, {}) && fits(op.y, op.x, op.up, {}) &&
         op.gate.dtype == op.up.dtype && fits_rows(op.precise, op.low, op.x) &&
         is_optional_low_part(op.y_low, op.y, op.precise) && static_cast<bool>(op.low) == static_cast<bool>(op.y_low) &&
         (!op.low || (is_matrix(op.low_sums, op.low.values.rows, 2 * op.y.cols, DType::f16) &&
                      is_matrix(op.remainder, op.low.values.rows, op.y.cols, DType::f16) &&
                      op.low_sums.stride == op.low_sums.cols && op.remainder.stride == op.remainder.cols));
}

std::vector<Tensor> parts(const Projections& op) {
  std::vector<Tensor> weights = {op.first, op.second};
  if (op.third) weights.push_back(op.third);
  return weights;
}

std::vector<Tensor> gate_parts(const Projections& op) {
  if (!op.gates) return {};
  return {op.gate_first, op.gate_second};
}

void define(const Linear& op) {
  for (std::int64_t r = 0; r < op.y.rows; ++r) {
    for (std::int64_t n = 0; n < op.y.cols; ++n) definition::put(op.y, r, n, product(op.x, op.w, op.bias, r, n));
  }
}

void define(const Projections& op) {
  const auto side_by_side = [&](const Tensor& y, const Tensor& bias, const std::vector<Tensor>& weights) {
    std::int64_t columns = 0;
    for (const Tensor& w : weights) {
      const Tensor part = y.col_range(columns, w.rows), its_bias = bias ? bias.col_range(columns, w.rows) : bias;
      for (std::int64_t r = 0; r < part.rows; ++r) {
        for (std::int64_t n = 0; n < part.cols; ++n) {
          definition::put(part, r, n, product(op.x, w, its_bias, r, n, op.low, op.precise));
        }
      }
      columns += w.rows;
    }
  };
  side_by_side(op.y, op.bias, parts(op));
  side_by_side(op.gates, {}, gate_parts(op));
}

void define(const LinearAdd& op) {
  for (std::int64_t r = 0; r < op.y.rows; ++r) {
    for (std::int64_t n = 0; n < op.y.cols; ++n) {
      definition::put(op.y, r, n, definition::at(op.y, r, n) + product(op.x, op.w, op.bias, r, n, op.low, op.precise));
    }
  }
}

void define(const LinearSwiglu& op) {
  std::vector<double> row(static_cast<std::size_t>(op.y.cols));
  for (std::int64_t r = 0; r < op.y.rows; ++r) {
    for (std::int64_t n = 0; n < op.y.cols; ++n) {
      const double gate = product(op.x, op.gate, {}, r, n, op.low, op.precise);
      const double up = product(op.x, op.up, {}, r, n, op.low, op.precise);
      row[static_cast<std::size_t>(n)] = definition::silu(gate) * up;
    }
    definition::put_row(op.y, op.y_low, op.precise, r, row);
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
