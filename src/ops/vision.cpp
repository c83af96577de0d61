#include "ops/vision.h"

#include "ops/define.h"

namespace clef {

bool valid(const PatchEmbed& op) {
  return op.w && is_matrix(op.y, op.levels.rows, op.w.rows, DType::f32) &&
         is_matrix(op.levels, op.y.rows, op.w.cols, DType::u8) && is_weight(op.w, op.y.cols, op.levels.cols) &&
         is_optional_vector(op.bias, op.y.cols);
}

void define(const PatchEmbed& op) {
  using namespace definition;
  for (std::int64_t r = 0; r < op.y.rows; ++r) {
    for (std::int64_t n = 0; n < op.y.cols; ++n) {
      double sum = op.bias ? at(op.bias, 0, n) : 0.0;
      for (std::int64_t k = 0; k < op.levels.cols; ++k) {
        sum += (static_cast<double>(op.levels.row<const std::uint8_t>(r)[k]) - 127.5) / 127.5 * at(op.w, n, k);
      }
      put(op.y, r, n, sum);
    }
  }
}

bool valid(const AddInterpolated& op) {
  return op.y && op.y.dtype == DType::f32 && is_weight(op.table, op.table.rows, op.y.cols) && op.taps.cols > 0 &&
         is_matrix(op.taps, op.y.rows, op.taps.cols, DType::i32) &&
         is_matrix(op.weights, op.y.rows, op.taps.cols, DType::f32);
}

void define(const AddInterpolated& op) {
  using namespace definition;
  for (std::int64_t r = 0; r < op.y.rows; ++r) {
    for (std::int64_t c = 0; c < op.y.cols; ++c) {
      double sum = at(op.y, r, c);
      for (std::int64_t j = 0; j < op.taps.cols; ++j)
        sum += at(op.weights, r, j) * at(op.table, int_at(op.taps, r, j), c);
      put(op.y, r, c, sum);
    }
  }
}

bool valid(const Rope& op) {
  const std::int64_t head_dim = 2 * op.cos.cols;
  return head_dim > 0 && op.x && is_activation(op.x.dtype) && op.x.cols % head_dim == 0 &&
         is_matrix(op.cos, op.x.rows, op.cos.cols, DType::f32) && is_matrix(op.sin, op.x.rows, op.cos.cols, DType::f32);
}

void define(const Rope& op) {
  using namespace definition;
  const std::int64_t pairs = op.cos.cols;
  for (std::int64_t t = 0; t < op.x.rows; ++t) {
    for (std::int64_t h = 0; h < op.x.cols; h += 2 * pairs) {
      for (std::int64_t i = 0; i < pairs; ++i) {
        const double a = at(op.x, t, h + i), b = at(op.x, t, h + pairs + i);
        put(op.x, t, h + i, a * at(op.cos, t, i) - b * at(op.sin, t, i));
        put(op.x, t, h + pairs + i, b * at(op.cos, t, i) + a * at(op.sin, t, i));
      }
    }
  }
}

bool valid(const PutRows& op) {
  return op.y && op.y.dtype == DType::f32 && is_matrix(op.x, op.index.cols, op.y.cols, DType::f32) &&
         is_vector(op.index, op.x.rows, DType::i32);
}

void define(const PutRows& op) {
  using namespace definition;
  for (std::int64_t i = 0; i < op.x.rows; ++i) {
    for (std::int64_t c = 0; c < op.x.cols; ++c) put(op.y, int_at(op.index, 0, i), c, at(op.x, i, c));
  }
}

}  // namespace clef
