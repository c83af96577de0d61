#include "ops/prepend_rows.h"

#include "ops/define.h"

namespace clef {

bool valid(const PrependRows& op) {
  return op.y && is_activation(op.y.dtype) && op.cu_seqlens.cols >= 2 &&
         is_vector(op.cu_seqlens, op.cu_seqlens.cols, DType::i32) &&
         (!op.prefix || is_matrix(op.prefix, op.prefix.rows, op.y.cols, op.y.dtype)) &&
         is_matrix(op.x, op.y.rows - (op.cu_seqlens.cols - 1) * op.prefix.rows, op.y.cols, op.y.dtype);
}

void define(const PrependRows& op) {
  using namespace definition;
  for (std::int64_t s = 0; s + 1 < op.cu_seqlens.cols; ++s) {
    const std::int64_t first = int_at(op.cu_seqlens, 0, s), known = op.prefix.rows;
    for (std::int64_t t = first; t < int_at(op.cu_seqlens, 0, s + 1); ++t) {
      const bool is_known = t - first < known;
      const Tensor& from = is_known ? op.prefix : op.x;
      for (std::int64_t c = 0; c < op.y.cols; ++c) {
        put(op.y, t, c, at(from, is_known ? t - first : t - (s + 1) * known, c));
      }
    }
  }
}

}  // namespace clef
