#include "ops/cost.h"

#include <span>
#include <tuple>
#include <vector>

namespace clef {

namespace {

double count(std::int64_t a, std::int64_t b, std::int64_t c) {
  return 2.0 * static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

// The lengths that cumulative starts [1, n + 1] tell of; zeros from a device that is lost.
std::vector<double> lengths(const Tensor& starts, Device& device) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(starts.cols), 0);
  if (!device.download(std::as_writable_bytes(std::span(values)), starts)) values.assign(values.size(), 0);
  std::vector<double> result;
  for (std::size_t i = 1; i < values.size(); ++i) result.push_back(static_cast<double>(values[i] - values[i - 1]));
  return result;
}

struct Flops {
  Device& device;

  // The sum over sequences of queries times keys.
  double pairs(const Tensor& cu_queries, const Tensor& cu_keys, bool causal) const {
    const std::vector<double> queries = lengths(cu_queries, device), keys = lengths(cu_keys, device);
    double total = 0;
    for (std::size_t s = 0; s < queries.size(); ++s) {
      total += queries[s] * (causal ? (queries[s] + 1) / 2 : keys[s]);
    }
    return total;
  }
  double operator()(const Linear& op) const { return count(op.y.rows, op.w.rows, op.w.cols); }
  double operator()(const Projections& op) const {
    return count(op.y.rows, op.y.cols, op.x.cols) + count(op.gates.rows, op.gates.cols, op.x.cols);
  }
  double operator()(const LinearAdd& op) const { return count(op.y.rows, op.w.rows, op.w.cols); }
  double operator()(const LinearGelu& op) const { return count(op.y.rows, op.w.rows, op.w.cols); }
  double operator()(const PatchEmbed& op) const { return count(op.y.rows, op.w.rows, op.w.cols); }
  double operator()(const LinearSwiglu& op) const { return 2 * count(op.y.rows, op.gate.rows, op.gate.cols); }
  double operator()(const Attention& op) const {
    const auto prefix = static_cast<double>(op.prefix), sequences = static_cast<double>(op.cu_seqlens.cols - 1);
    return 4 * static_cast<double>(op.q.cols) *
           (pairs(op.cu_seqlens, op.cu_seqlens, true) - sequences * prefix * (prefix + 1) / 2);
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

double size_in_bytes(const Tensor& t) {
  return t ? static_cast<double>(t.rows) * static_cast<double>(t.cols) * static_cast<double>(size_of(t.dtype)) : 0;
}
double crossing(const In& t) { return size_in_bytes(t); }
double crossing(const Out& t) { return size_in_bytes(t); }
double crossing(const InOut& t) { return 2 * size_in_bytes(t); }

template <typename O>
double all_of(const O& op) {
  return std::apply([](const auto&... t) { return (crossing(t) + ... + 0.0); }, op.tensors());
}
// With `rows` rows of the table in place of all.
template <typename O>
double with_rows_of(const O& op, Tensor table, std::int64_t rows) {
  const double all = size_in_bytes(table);
  table.rows = rows;
  return all_of(op) - all + size_in_bytes(table);
}

// A product of a low part reads the weights' E4M3 copies, a byte an element.
double copies_for(const LowIn& low, const std::vector<Tensor>& weights) {
  double total = 0;
  for (const Tensor& w : weights) total += low ? static_cast<double>(w.rows) * static_cast<double>(w.cols) : 0.0;
  return total;
}

struct Bytes {
  double operator()(const Embed& op) const { return with_rows_of(op, op.table, op.y.rows); }
  double operator()(const TakeRows& op) const { return with_rows_of(op, op.table, op.y.rows); }
  double operator()(const EmbedMean& op) const { return with_rows_of(op, op.table, op.y.rows); }
  double operator()(const SpanMean& op) const { return with_rows_of(op, op.x, op.y.rows); }
  double operator()(const AddRows& op) const { return with_rows_of(op, op.x, op.y.rows); }
  double operator()(const AddInterpolated& op) const { return with_rows_of(op, op.table, op.y.rows * op.taps.cols); }
  double operator()(const PutRows& op) const {  // as many rows of y as x has
    Tensor part = op.y;
    part.rows = op.x.rows;
    return all_of(op) - crossing(op.y) + size_in_bytes(part);
  }
  double operator()(const Projections& op) const {
    return all_of(op) + copies_for(op.low, parts(op)) + copies_for(op.low, gate_parts(op));
  }
  double operator()(const LinearAdd& op) const { return all_of(op) + copies_for(op.low, {op.w}); }
  double operator()(const LinearSwiglu& op) const { return all_of(op) + copies_for(op.low, {op.gate, op.up}); }
  template <typename Other>
  double operator()(const Other& op) const {
    return all_of(op);
  }
};

}  // namespace

double bytes(const Op& op) { return std::visit(Bytes{}, op); }

double flops(const Op& op, Device& device) { return std::visit(Flops{device}, op); }

}  // namespace clef
