#include "ops/delta_net.h"

#include <vector>

#include "ops/define.h"

namespace clef {

namespace {

// [n, cols] rows equally far apart, or none.
bool is_prefix(const Tensor& prefix, std::int64_t cols, DType type) {
  return !prefix || is_matrix(prefix, prefix.rows, cols, type);
}

}  // namespace

bool valid(const ShortConv& op) {
  const std::int64_t d = op.head_dim, tokens = op.q.rows;
  const DType type = op.x.dtype;
  return d > 0 && op.q.cols % d == 0 && op.k.cols == op.q.cols && is_activation(type) &&
         is_matrix(op.q, tokens, op.q.cols, type) && is_matrix(op.k, tokens, op.k.cols, type) &&
         is_matrix(op.v, tokens, op.v.cols, type) && is_prefix(op.prefix, op.x.cols, type) &&
         is_matrix(op.x, tokens - (op.cu_seqlens.cols - 1) * op.prefix.rows, op.q.cols + op.k.cols + op.v.cols, type) &&
         op.weight.rows >= 1 && is_matrix(op.weight, op.weight.rows, op.x.cols, DType::f32) &&
         op.cu_seqlens.cols >= 2 && is_vector(op.cu_seqlens, op.cu_seqlens.cols, DType::i32);
}

void define(const ShortConv& op) {
  using namespace definition;
  const std::int64_t taps = op.weight.rows, d = op.head_dim;
  std::vector<double> row(static_cast<std::size_t>(op.x.cols));
  const std::int64_t known = op.prefix.rows;
  for (std::int64_t s = 0; s + 1 < op.cu_seqlens.cols; ++s) {
    const std::int64_t first = int_at(op.cu_seqlens, 0, s), last = int_at(op.cu_seqlens, 0, s + 1);
    for (std::int64_t t = first; t < last; ++t) {
      for (std::int64_t c = 0; c < op.x.cols; ++c) {
        double sum = 0;
        for (std::int64_t j = 0; j < taps; ++j) {
          const std::int64_t source = t - (taps - 1) + j;
          if (source < first) continue;
          const bool is_known = source - first < known;
          sum += at(op.weight, j, c) *
                 at(is_known ? op.prefix : op.x, is_known ? source - first : source - (s + 1) * known, c);
        }
        row[static_cast<std::size_t>(c)] = silu(sum);
      }
      const auto normalised = [&](const Tensor& y, std::int64_t x_first) {
        for (std::int64_t h = 0; h < y.cols; h += d) {
          double squares = 1e-6;
          for (std::int64_t c = 0; c < d; ++c) {
            const double value = row[static_cast<std::size_t>(x_first + h + c)];
            squares += value * value;
          }
          for (std::int64_t c = 0; c < d; ++c) {
            put(y, t, h + c, row[static_cast<std::size_t>(x_first + h + c)] / std::sqrt(squares));
          }
        }
      };
      normalised(op.q, 0);
      normalised(op.k, op.q.cols);
      for (std::int64_t c = 0; c < op.v.cols; ++c) put(op.v, t, c, row[static_cast<std::size_t>(2 * op.q.cols + c)]);
    }
  }
}

bool valid(const DeltaNet& op) {
  const std::int64_t d = op.head_dim, n = op.value_dim, tokens = op.q.rows;
  if (d <= 0 || n <= 0 || op.q.cols % d != 0 || op.v.cols % n != 0) return false;
  const std::int64_t heads = op.v.cols / n;
  const DType type = op.q.dtype;
  const std::int64_t new_tokens = tokens - (op.cu_seqlens.cols - 1) * op.prefix_b.rows;
  return op.q.cols > 0 && heads % (op.q.cols / d) == 0 && is_activation(type) &&
         is_matrix(op.y, new_tokens, op.v.cols, type) && is_matrix(op.k, tokens, op.q.cols, type) &&
         is_matrix(op.v, tokens, op.v.cols, type) && is_matrix(op.b, new_tokens, heads, DType::f32) &&
         is_matrix(op.a, new_tokens, heads, DType::f32) && op.a.stride == op.b.stride &&
         is_prefix(op.prefix_b, heads, DType::f32) && is_prefix(op.prefix_a, heads, DType::f32) &&
         op.prefix_a.rows == op.prefix_b.rows && op.prefix_a.stride == op.prefix_b.stride &&
         is_vector(op.neg_exp_a_log, heads) && is_vector(op.dt_bias, heads) && op.cu_seqlens.cols >= 2 &&
         is_vector(op.cu_seqlens, op.cu_seqlens.cols, DType::i32);
}

// The recurrence, token by token.
void define(const DeltaNet& op) {
  using namespace definition;
  const std::int64_t d = op.head_dim, n = op.value_dim, heads = op.v.cols / n, group = heads / (op.q.cols / d);
  std::vector<double> state(static_cast<std::size_t>(d * n)), delta(static_cast<std::size_t>(n));
  const auto cell = [&](std::int64_t i, std::int64_t j) -> double& {
    return state[static_cast<std::size_t>(i * n + j)];
  };
  for (std::int64_t s = 0; s + 1 < op.cu_seqlens.cols; ++s) {
    for (std::int64_t h = 0; h < heads; ++h) {
      std::fill(state.begin(), state.end(), 0.0);
      const std::int64_t kh = h / group * d, first = int_at(op.cu_seqlens, 0, s), known = op.prefix_b.rows;
      for (std::int64_t t = first; t < int_at(op.cu_seqlens, 0, s + 1); ++t) {
        const bool is_known = t - first < known;
        const std::int64_t row = is_known ? t - first : t - (s + 1) * known;
        const double beta = sigmoid(at(is_known ? op.prefix_b : op.b, row, h)),
                     a = at(is_known ? op.prefix_a : op.a, row, h);
        const double decay = std::exp(at(op.neg_exp_a_log, 0, h) * softplus(a + at(op.dt_bias, 0, h)));
        for (double& value : state) value *= decay;
        for (std::int64_t j = 0; j < n; ++j) {
          double predicted = 0;
          for (std::int64_t i = 0; i < d; ++i) predicted += cell(i, j) * at(op.k, t, kh + i);
          delta[static_cast<std::size_t>(j)] = beta * (at(op.v, t, h * n + j) - predicted);
        }
        for (std::int64_t j = 0; j < n; ++j) {
          double out = 0;
          for (std::int64_t i = 0; i < d; ++i) {
            cell(i, j) += at(op.k, t, kh + i) * delta[static_cast<std::size_t>(j)];
            out += cell(i, j) * at(op.q, t, kh + i);
          }
          if (!is_known) put(op.y, row, h * n + j, out / std::sqrt(static_cast<double>(d)));
        }
      }
    }
  }
}

}  // namespace clef
