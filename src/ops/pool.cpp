#include "ops/pool.h"

#include "ops/define.h"

namespace clef {

bool valid(const SpanMean& op) {
  return is_matrix(op.y, op.spans.rows, op.x.cols, DType::f32) && op.x && op.x.dtype == DType::f32 &&
         is_matrix(op.spans, op.y.rows, 2, DType::i32);
}

void define(const SpanMean& op) {
  using namespace definition;
  for (std::int64_t i = 0; i < op.y.rows; ++i) {
    const std::int64_t first = int_at(op.spans, i, 0), count = int_at(op.spans, i, 1);
    for (std::int64_t c = 0; c < op.y.cols; ++c) {
      double sum = 0;
      for (std::int64_t r = first; r < first + count; ++r) sum += at(op.x, r, c);
      put(op.y, i, c, sum / static_cast<double>(count));
    }
  }
}

bool valid(const EmbedMean& op) {
  return op.table && is_matrix(op.y, op.spans.rows, op.table.cols, DType::f32) &&
         is_vector(op.ids, op.ids.cols, DType::i32) && is_matrix(op.spans, op.y.rows, 2, DType::i32) &&
         is_weight(op.table, op.table.rows, op.y.cols);
}

void define(const EmbedMean& op) {
  using namespace definition;
  for (std::int64_t i = 0; i < op.y.rows; ++i) {
    const std::int64_t first = int_at(op.spans, i, 0), count = int_at(op.spans, i, 1);
    for (std::int64_t c = 0; c < op.y.cols; ++c) {
      double sum = 0;
      for (std::int64_t p = first; p < first + count; ++p) sum += at(op.table, int_at(op.ids, 0, p), c);
      put(op.y, i, c, sum / static_cast<double>(count));
    }
  }
}

bool valid(const AddRows& op) {
  const bool indexed = op.index ? is_vector(op.index, op.y.rows, DType::i32) : op.y.rows == op.x.rows;
  return indexed && op.y && op.x && op.y.dtype == DType::f32 && op.y.cols == op.x.cols &&
         (op.x.dtype == DType::f32 || is_weight(op.x, op.x.rows, op.x.cols));
}

void define(const AddRows& op) {
  using namespace definition;
  for (std::int64_t r = 0; r < op.y.rows; ++r) {
    const std::int64_t from = op.index ? int_at(op.index, 0, r) : r;
    for (std::int64_t c = 0; c < op.y.cols; ++c) put(op.y, r, c, at(op.y, r, c) + at(op.x, from, c));
  }
}

}  // namespace clef
