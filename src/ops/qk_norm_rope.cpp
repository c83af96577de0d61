#include "ops/qk_norm_rope.h"

#include <vector>

#include "ops/define.h"

namespace clef {

namespace {

// One head of one token: x[first ..] normalised, rotated, written to y[y_first ..].
void norm_rope(const Tensor& y, std::int64_t y_first, const Tensor& x, std::int64_t x_first, const Tensor& gain,
               const QkNormRope& op, std::int64_t token) {
  using namespace definition;
  const std::int64_t n = gain.cols, pairs = op.cos.cols;
  double sum = 0;
  for (std::int64_t c = 0; c < n; ++c) sum += at(x, token, x_first + c) * at(x, token, x_first + c);
  const double scale = 1.0 / std::sqrt(sum / static_cast<double>(n) + static_cast<double>(op.eps));
  std::vector<double> head(static_cast<std::size_t>(n));
  for (std::int64_t c = 0; c < n; ++c) {
    head[static_cast<std::size_t>(c)] = at(x, token, x_first + c) * scale * at(gain, 0, c);
  }
  for (std::int64_t i = 0; i < pairs; ++i) {
    double& a = head[static_cast<std::size_t>(i)];
    double& b = head[static_cast<std::size_t>(i + pairs)];
    const auto axis = static_cast<std::int64_t>(rope_axis(i, op.height_pairs, op.width_pairs));
    const std::int64_t position = int_at(op.positions, token, axis);
    const double cos = at(op.cos, position, i), sin = at(op.sin, position, i);
    const double rotated = a * cos - b * sin;
    b = b * cos + a * sin;
    a = rotated;
  }
  for (std::int64_t c = 0; c < n; ++c) put(y, token, y_first + c, head[static_cast<std::size_t>(c)]);
}

}  // namespace

bool valid(const QkNormRope& op) {
  const std::int64_t n = op.q_gain.cols, tokens = op.q.rows;
  return n > 0 && is_vector(op.q_gain, n) && is_vector(op.k_gain, n) && op.q.cols % n == 0 && op.k.cols % n == 0 &&
         is_activation(op.q.dtype) && is_matrix(op.k, tokens, op.k.cols, op.q.dtype) &&
         is_matrix(op.q_gate, tokens, 2 * op.q.cols, op.q.dtype) &&
         is_matrix(op.k_raw, tokens, op.k.cols, op.q.dtype) && op.cos.cols * 2 <= n &&
         is_matrix(op.cos, op.cos.rows, op.cos.cols, DType::f32) &&
         is_matrix(op.sin, op.cos.rows, op.cos.cols, DType::f32) && is_matrix(op.positions, tokens, 3, DType::i32) &&
         op.eps > 0;
}

void define(const QkNormRope& op) {
  const std::int64_t n = op.q_gain.cols;
  for (std::int64_t t = 0; t < op.q.rows; ++t) {
    for (std::int64_t h = 0; h < op.q.cols / n; ++h) norm_rope(op.q, h * n, op.q_gate, 2 * h * n, op.q_gain, op, t);
    for (std::int64_t h = 0; h < op.k.cols / n; ++h) norm_rope(op.k, h * n, op.k_raw, h * n, op.k_gain, op, t);
  }
}

}  // namespace clef
