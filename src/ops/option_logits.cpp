#include "ops/option_logits.h"

#include <algorithm>
#include <vector>

#include "ops/define.h"

namespace clef {

bool valid(const OptionSummary& op) {
  return is_matrix(op.z, op.fields.rows, op.options.cols, DType::f32) &&
         is_matrix(op.fields, op.z.rows, op.options.cols, DType::f32) && op.options.dtype == DType::f32 &&
         is_vector(op.cu_options, op.fields.rows + 1, DType::i32);
}

void define(const OptionSummary& op) {
  using namespace definition;
  const std::int64_t width = op.options.cols;
  for (std::int64_t q = 0; q < op.z.rows; ++q) {
    const std::int64_t first = int_at(op.cu_options, 0, q), last = int_at(op.cu_options, 0, q + 1);
    std::vector<double> weight;
    double largest = -HUGE_VAL, total = 0;
    for (std::int64_t k = first; k < last; ++k) {
      double dot = 0;
      for (std::int64_t c = 0; c < width; ++c) dot += at(op.options, k, c) * at(op.fields, q, c);
      weight.push_back(dot / std::sqrt(static_cast<double>(width)));
      largest = std::max(largest, weight.back());
    }
    for (double& w : weight) total += w = std::exp(w - largest);
    for (std::int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (std::int64_t k = first; k < last; ++k)
        sum += weight[static_cast<std::size_t>(k - first)] / total * at(op.options, k, c);
      put(op.z, q, c, sum);
    }
  }
}

bool valid(const ScorerFeatures& op) {
  return is_matrix(op.y, op.options.rows, 4 * op.options.cols, DType::f32) && op.options.dtype == DType::f32 &&
         is_matrix(op.fields, op.fields.rows, op.options.cols, DType::f32) &&
         is_vector(op.question_of_option, op.options.rows, DType::i32);
}

void define(const ScorerFeatures& op) {
  using namespace definition;
  const std::int64_t width = op.options.cols;
  for (std::int64_t k = 0; k < op.y.rows; ++k) {
    const std::int64_t q = int_at(op.question_of_option, 0, k);
    for (std::int64_t c = 0; c < width; ++c) {
      const double field = at(op.fields, q, c), option = at(op.options, k, c);
      put(op.y, k, c, field);
      put(op.y, k, width + c, option);
      put(op.y, k, 2 * width + c, field * option);
      put(op.y, k, 3 * width + c, std::abs(field - option));
    }
  }
}

bool valid(const OptionLogits& op) {
  const std::int64_t options = op.options.rows, questions = op.fields.rows;
  return is_matrix(op.logits, options, 1, DType::f32) && is_matrix(op.lexical, options, op.question.cols, DType::f32) &&
         is_matrix(op.question, questions, op.lexical.cols, DType::f32) &&
         is_matrix(op.last, questions, op.lexical.cols, DType::f32) &&
         is_matrix(op.fields, questions, op.options.cols, DType::f32) && op.options.dtype == DType::f32 &&
         is_matrix(op.residual, options, 1, DType::f32) && is_vector(op.question_of_option, options, DType::i32);
}

void define(const OptionLogits& op) {
  using namespace definition;
  for (std::int64_t k = 0; k < op.logits.rows; ++k) {
    const std::int64_t q = int_at(op.question_of_option, 0, k);
    double dot = 0, lexical = 0, anchor = 0;
    for (std::int64_t c = 0; c < op.lexical.cols; ++c) {
      const double a = at(op.lexical, k, c), b = at(op.question, q, c) + at(op.last, q, c);
      dot += a * b;
      lexical += a * a;
      anchor += b * b;
    }
    const double prior = dot / (std::max(std::sqrt(lexical), 1e-12) * std::max(std::sqrt(anchor), 1e-12));
    double joint = 0, field = 0, option = 0;
    for (std::int64_t c = 0; c < op.options.cols; ++c) {
      const double a = at(op.fields, q, c), b = at(op.options, k, c);
      joint += a * b;
      field += a * a;
      option += b * b;
    }
    const double cosine = joint / (std::max(std::sqrt(field), 1e-8) * std::max(std::sqrt(option), 1e-8));
    put(op.logits, k, 0,
        static_cast<double>(op.prior_scale) * prior +
            static_cast<double>(op.gate) * (static_cast<double>(op.joint_scale) * cosine + at(op.residual, k, 0)));
  }
}

}  // namespace clef
