#include "ops/attention.h"

#include <algorithm>
#include <vector>

#include "ops/define.h"

namespace clef {

namespace {

// One query row of one head against keys [first, last) of one key head: out[c] = sum of softmax * v.
std::vector<double> attend(const Tensor& q, std::int64_t row, std::int64_t q_first, const Tensor& k, const Tensor& v,
                           std::int64_t kv_first, std::int64_t first, std::int64_t last, std::int64_t head_dim) {
  using namespace definition;
  std::vector<double> scores;
  double largest = -HUGE_VAL;
  for (std::int64_t s = first; s < last; ++s) {
    double dot = 0;
    for (std::int64_t c = 0; c < head_dim; ++c) dot += at(q, row, q_first + c) * at(k, s, kv_first + c);
    scores.push_back(dot / std::sqrt(static_cast<double>(head_dim)));
    largest = std::max(largest, scores.back());
  }
  std::vector<double> out(static_cast<std::size_t>(head_dim), 0.0);
  double total = 0;
  for (std::int64_t s = first; s < last; ++s) {
    const double p = std::exp(scores[static_cast<std::size_t>(s - first)] - largest);
    total += p;
    for (std::int64_t c = 0; c < head_dim; ++c) out[static_cast<std::size_t>(c)] += p * at(v, s, kv_first + c);
  }
  for (double& value : out) value /= total;
  return out;
}

}  // namespace

bool valid(const Attention& op) {
  const std::int64_t d = op.head_dim, new_tokens = op.q.rows;
  const std::int64_t tokens = new_tokens + (op.cu_seqlens.cols - 1) * op.prefix;
  return d > 0 && op.q.cols % d == 0 && op.k.cols % d == 0 && op.k.cols > 0 && op.q.cols % op.k.cols == 0 &&
         op.prefix >= 0 && is_activation(op.q.dtype) && is_matrix(op.y, new_tokens, op.q.cols, op.q.dtype) &&
         is_matrix(op.k, tokens, op.k.cols, op.q.dtype) && is_matrix(op.v, tokens, op.k.cols, op.q.dtype) &&
         op.k.stride == op.v.stride && is_matrix(op.q_gate, new_tokens, 2 * op.q.cols, op.q.dtype) &&
         is_vector(op.cu_seqlens, op.cu_seqlens.cols, DType::i32) && op.cu_seqlens.cols >= 2;
}

void define(const Attention& op) {
  using namespace definition;
  const std::int64_t d = op.head_dim, heads = op.q.cols / d, group = op.q.cols / op.k.cols;
  for (std::int64_t s = 0; s + 1 < op.cu_seqlens.cols; ++s) {
    const std::int64_t first = int_at(op.cu_seqlens, 0, s), last = int_at(op.cu_seqlens, 0, s + 1);
    for (std::int64_t t = first + op.prefix; t < last; ++t) {
      const std::int64_t row = t - (s + 1) * op.prefix;
      for (std::int64_t h = 0; h < heads; ++h) {
        const auto out = attend(op.q, row, h * d, op.k, op.v, h / group * d, first, t + 1, d);
        for (std::int64_t c = 0; c < d; ++c) {
          const double gate = sigmoid(at(op.q_gate, row, (2 * h + 1) * d + c));
          put(op.y, row, h * d + c, out[static_cast<std::size_t>(c)] * gate);
        }
      }
    }
  }
}

bool valid(const CrossAttention& op) {
  const std::int64_t d = op.head_dim;
  const DType type = op.q.dtype;
  return d > 0 && op.q.cols % d == 0 && is_activation(type) && is_matrix(op.y, op.q.rows, op.q.cols, type) &&
         is_matrix(op.k, op.k.rows, op.q.cols, type) && is_matrix(op.v, op.k.rows, op.q.cols, type) &&
         op.k.stride == op.v.stride && op.cu_queries.cols >= 2 &&
         is_vector(op.cu_queries, op.cu_queries.cols, DType::i32) &&
         is_vector(op.cu_keys, op.cu_queries.cols, DType::i32);
}

void define(const CrossAttention& op) {
  using namespace definition;
  const std::int64_t d = op.head_dim;
  for (std::int64_t s = 0; s + 1 < op.cu_queries.cols; ++s) {
    const std::int64_t first = int_at(op.cu_keys, 0, s), last = int_at(op.cu_keys, 0, s + 1);
    for (std::int64_t t = int_at(op.cu_queries, 0, s); t < int_at(op.cu_queries, 0, s + 1); ++t) {
      for (std::int64_t h = 0; h < op.q.cols / d; ++h) {
        const auto out = attend(op.q, t, h * d, op.k, op.v, h * d, first, last, d);
        for (std::int64_t c = 0; c < d; ++c) put(op.y, t, h * d + c, out[static_cast<std::size_t>(c)]);
      }
    }
  }
}

}  // namespace clef
