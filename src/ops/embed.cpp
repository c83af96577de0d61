#include "ops/embed.h"

#include "ops/define.h"

namespace clef {

bool valid(const Embed& op) {
  return op.table && is_matrix(op.y, op.ids.cols, op.table.cols, DType::f32) &&
         is_vector(op.ids, op.y.rows, DType::i32) && is_weight(op.table, op.table.rows, op.y.cols);
}

void define(const Embed& op) {
  using namespace definition;
  for (std::int64_t t = 0; t < op.y.rows; ++t) {
    for (std::int64_t c = 0; c < op.y.cols; ++c) put(op.y, t, c, at(op.table, int_at(op.ids, 0, t), c));
  }
}

bool valid(const TakeRows& op) {
  return op.y && is_activation(op.y.dtype) && is_matrix(op.y, op.ids.cols, op.y.cols, op.y.dtype) &&
         is_vector(op.ids, op.y.rows, DType::i32) && is_matrix(op.table, op.table.rows, op.y.cols, op.y.dtype);
}

void define(const TakeRows& op) {
  using namespace definition;
  for (std::int64_t t = 0; t < op.y.rows; ++t) {
    for (std::int64_t c = 0; c < op.y.cols; ++c) put(op.y, t, c, at(op.table, int_at(op.ids, 0, t), c));
  }
}

}  // namespace clef
