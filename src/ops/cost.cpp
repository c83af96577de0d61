#include "ops/cost.h"

namespace clef {

namespace {

double count(std::int64_t a, std::int64_t b, std::int64_t c) {
  return 2.0 * static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

// The sum over sequences of queries times keys, from tables the host can read.
double pairs(const Tensor& cu_queries, const Tensor& cu_keys, bool causal) {
  double total = 0;
  for (std::int64_t s = 0; s + 1 < cu_queries.cols; ++s) {
    const auto length = [s](const Tensor& cu) {
      return static_cast<double>(cu.row<const std::int32_t>(0)[s + 1] - cu.row<const std::int32_t>(0)[s]);
    };
    const double queries = length(cu_queries);
    total += causal ? queries * (queries + 1) / 2 : queries * length(cu_keys);
  }
  return total;
}

struct Flops {
  double operator()(const Linear& op) const { return count(op.y.rows, op.w.rows, op.w.cols); }
  double operator()(const Projections& op) const { return count(op.y.rows, op.y.cols, op.x.cols); }
  double operator()(const LinearAdd& op) const { return count(op.y.rows, op.w.rows, op.w.cols); }
  double operator()(const LinearGelu& op) const { return count(op.y.rows, op.w.rows, op.w.cols); }
  double operator()(const PatchEmbed& op) const { return count(op.y.rows, op.w.rows, op.w.cols); }
  double operator()(const LinearSwiglu& op) const { return 2 * count(op.y.rows, op.gate.rows, op.gate.cols); }
  double operator()(const Attention& op) const {
    return 4 * static_cast<double>(op.q.cols) * pairs(op.cu_seqlens, op.cu_seqlens, true);
  }
  double operator()(const CrossAttention& op) const {
    return 4 * static_cast<double>(op.q.cols) * pairs(op.cu_queries, op.cu_keys, false);
  }
  // The recurrence: decay, prediction, update, output.
  double operator()(const DeltaNet& op) const {
    return 7.0 * static_cast<double>(op.v.rows) * static_cast<double>(op.v.cols) * static_cast<double>(op.head_dim);
  }
  template <typename Other>
  double operator()(const Other&) const {
    return 0;
  }
};

}  // namespace

double flops(const Op& op) { return std::visit(Flops{}, op); }

}  // namespace clef
