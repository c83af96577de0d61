#include "ops/rms_norm.h"

#include <vector>

#include "ops/define.h"

namespace clef {

bool valid(const RmsNorm& op) {
  return is_matrix(op.y, op.x.rows, op.x.cols, op.y.dtype) && is_activation(op.y.dtype) && op.x.dtype == DType::f32 &&
         is_vector(op.gain, op.x.cols) && op.eps > 0 && are_rows_of(op.precise, op.x) &&
         is_optional_low_part(op.low, op.y, op.precise);
}

void define(const RmsNorm& op) {
  using namespace definition;
  std::vector<double> row(static_cast<std::size_t>(op.x.cols));
  for (std::int64_t r = 0; r < op.x.rows; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < op.x.cols; ++c) sum += at(op.x, r, c) * at(op.x, r, c);
    const double scale = 1.0 / std::sqrt(sum / static_cast<double>(op.x.cols) + static_cast<double>(op.eps));
    for (std::int64_t c = 0; c < op.x.cols; ++c) {
      row[static_cast<std::size_t>(c)] = at(op.x, r, c) * scale * at(op.gain, 0, c);
    }
    put_row(op.y, op.low, op.precise, r, row);
  }
}

bool valid(const GatedRmsNorm& op) {
  const DType type = op.x.dtype;
  return is_activation(type) && is_matrix(op.y, op.x.rows, op.x.cols, op.low ? DType::f16 : type) &&
         (!op.low || type == DType::f32) && are_rows_of(op.precise, op.x) &&
         is_optional_low_part(op.low, op.y, op.precise) && is_matrix(op.z, op.x.rows, op.x.cols, type) && op.gain &&
         op.gain.cols > 0 && is_vector(op.gain, op.gain.cols) && op.x.cols % op.gain.cols == 0 && op.eps > 0;
}

void define(const GatedRmsNorm& op) {
  using namespace definition;
  const std::int64_t n = op.gain.cols;
  std::vector<double> row(static_cast<std::size_t>(op.x.cols));
  for (std::int64_t r = 0; r < op.x.rows; ++r) {
    for (std::int64_t first = 0; first < op.x.cols; first += n) {
      double sum = 0;
      for (std::int64_t c = 0; c < n; ++c) sum += at(op.x, r, first + c) * at(op.x, r, first + c);
      const double scale = 1.0 / std::sqrt(sum / static_cast<double>(n) + static_cast<double>(op.eps));
      for (std::int64_t c = 0; c < n; ++c) {
        row[static_cast<std::size_t>(first + c)] =
            at(op.gain, 0, c) * at(op.x, r, first + c) * scale * silu(at(op.z, r, first + c));
      }
    }
    put_row(op.y, op.low, op.precise, r, row);
  }
}

}  // namespace clef
