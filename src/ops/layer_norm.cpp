#include "ops/layer_norm.h"

#include "ops/define.h"

namespace clef {

bool valid(const LayerNorm& op) {
  return is_matrix(op.y, op.x.rows, op.x.cols, op.y.dtype) && is_activation(op.y.dtype) && op.x.dtype == DType::f32 &&
         is_vector(op.gain, op.x.cols) && is_vector(op.bias, op.x.cols) && op.eps > 0;
}

void define(const LayerNorm& op) {
  using namespace definition;
  const auto n = static_cast<double>(op.x.cols);
  for (std::int64_t r = 0; r < op.x.rows; ++r) {
    double mean = 0, var = 0;
    for (std::int64_t c = 0; c < op.x.cols; ++c) mean += at(op.x, r, c) / n;
    for (std::int64_t c = 0; c < op.x.cols; ++c) var += (at(op.x, r, c) - mean) * (at(op.x, r, c) - mean) / n;
    const double scale = 1.0 / std::sqrt(var + static_cast<double>(op.eps));
    for (std::int64_t c = 0; c < op.x.cols; ++c) {
      put(op.y, r, c, (at(op.x, r, c) - mean) * scale * at(op.gain, 0, c) + at(op.bias, 0, c));
    }
  }
}

}  // namespace clef
