// The joint schema head's own steps, from routed options to logits.      Source: JointSchemaHead.forward.
#pragma once

#include <string_view>
#include <tuple>

#include "ops/io.h"

namespace clef {

// z[q] = sum over q's options k of softmax_k(r_k . b_q / sqrt(W)) * r_k
struct OptionSummary {
  static constexpr std::string_view name = "option_summary";
  Out z;          // [questions, W]  f32
  In options;     // [options, W]    f32, rows question by question
  In fields;      // [questions, W]  f32
  In cu_options;  // [1, questions + 1]  i32
  auto tensors() const { return std::tie(z, options, fields, cu_options); }
};
bool valid(const OptionSummary& op);
void define(const OptionSummary& op);

// y[k] = [f_q, w_k, f_q * w_k, |f_q - w_k|] with q = question_of_option[k]
struct ScorerFeatures {
  static constexpr std::string_view name = "scorer_features";
  Out y;                  // [options, 4 W]  f32
  In fields;              // [questions, W]  f32
  In options;             // [options, W]    f32
  In question_of_option;  // [1, options]    i32
  auto tensors() const { return std::tie(y, fields, options, question_of_option); }
};
bool valid(const ScorerFeatures& op);
void define(const ScorerFeatures& op);

// logit_k = prior_scale * unit(lexical_k) . unit(question_q + last_q) + gate * (joint_scale * cos(f_q, w_k) +
// residual_k) unit divides by max(norm, 1e-12), cos by max(norm, 1e-8) of each.
struct OptionLogits {
  static constexpr std::string_view name = "option_logits";
  Out logits;             // [options, 1]    f32
  In lexical;             // [options, H]    f32
  In question, last;      // [questions, H]  f32
  In fields;              // [questions, W]  f32
  In options;             // [options, W]    f32
  In residual;            // [options, 1]    f32
  In question_of_option;  // [1, options]    i32
  float prior_scale = 0, joint_scale = 0, gate = 0;
  auto tensors() const {
    return std::tie(logits, lexical, question, last, fields, options, residual, question_of_option);
  }
};
bool valid(const OptionLogits& op);
void define(const OptionLogits& op);

}  // namespace clef
