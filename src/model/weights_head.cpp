// The joint schema head's tensors. Source: joint_head.safetensors of the releases; names as in JointSchemaHead.
#include "model/weights_bind.h"

namespace clef {

namespace {

// Adds rows under a common prefix.
struct Block {
  std::vector<Binding>& bindings;
  std::string prefix;

  void matrix(std::string_view name, MappedMatrix& field, std::int64_t rows, std::int64_t cols) {
    bindings.push_back(clef::matrix(fmt::format("{}{}", prefix, name), field, rows, cols));
  }
  void vector(std::string_view name, std::vector<float>& field, std::int64_t count) {
    bindings.push_back(clef::vector(fmt::format("{}{}", prefix, name), field, count));
  }
  void scalar(std::string_view name, float& field) {
    bindings.push_back({.name = fmt::format("{}{}", prefix, name), .shape = {}, .target = ToScalar{&field}});
  }
  void norm(std::string_view name, NormWeights& field, std::int64_t width) {
    vector(fmt::format("{}.weight", name), field.gain, width);
    vector(fmt::format("{}.bias", name), field.bias, width);
  }
  void linear(std::string_view name, LinearWeights& field, std::int64_t rows, std::int64_t cols) {
    matrix(fmt::format("{}.weight", name), field.weight, rows, cols);
    vector(fmt::format("{}.bias", name), field.bias, rows);
  }
  void attention(std::string_view name, MultiheadWeights& field, std::int64_t width) {
    bindings.push_back(fused(fmt::format("{}{}.in_proj_weight", prefix, name),
                             {{&field.q.weight, width}, {&field.k.weight, width}, {&field.v.weight, width}}, width));
    bindings.push_back({.name = fmt::format("{}{}.in_proj_bias", prefix, name),
                        .shape = {3 * width},
                        .target = ToVectors{{{&field.q.bias, width}, {&field.k.bias, width}, {&field.v.bias, width}}}});
    linear(fmt::format("{}.out_proj", name), field.out, width, width);
  }
};

}  // namespace

void add_head_bindings(const HeadConfig& config, HeadWeights& weights, std::vector<Binding>& bindings) {
  const std::int64_t hidden = config.hidden_size, width = config.width, inner = config.feedforward;
  Block head{bindings, "head."};
  head.norm("hidden_norm", weights.hidden_norm, hidden);
  head.matrix("memory_projection.weight", weights.memory_projection, width, hidden);
  head.matrix("question_projection.weight", weights.question_projection, width, hidden);
  head.matrix("option_question_projection.weight", weights.option_question_projection, width, hidden);
  head.matrix("global_projection.weight", weights.global_projection, width, hidden);
  head.matrix("option_context_projection.weight", weights.option_context_projection, width, hidden);
  head.matrix("option_lexical_projection.weight", weights.option_lexical_projection, width, hidden);
  head.matrix("type_embedding.weight", weights.type_embedding, 3, width);
  for (std::size_t i = 0; i < weights.evidence_layers.size(); ++i) {
    EvidenceLayerWeights& layer = weights.evidence_layers[i];
    Block block{bindings, fmt::format("head.evidence_layers.{}.", i)};
    block.norm("query_norm", layer.query_norm, width);
    block.norm("memory_norm", layer.memory_norm, width);
    block.attention("attention", layer.attention, width);
    block.norm("feedforward_norm", layer.feedforward_norm, width);
    block.linear("feedforward.0", layer.up, inner, width);
    block.linear("feedforward.3", layer.down, width, inner);
  }
  head.norm("option_summary_norm", weights.option_summary_norm, width);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    FieldLayerWeights& layer = weights.layers[i];
    Block block{bindings, fmt::format("head.layers.{}.", i)};
    block.attention("self_attn", layer.self_attn, width);
    block.attention("multihead_attn", layer.multihead_attn, width);
    block.linear("linear1", layer.linear1, inner, width);
    block.linear("linear2", layer.linear2, width, inner);
    block.norm("norm1", layer.norm1, width);
    block.norm("norm2", layer.norm2, width);
    block.norm("norm3", layer.norm3, width);
  }
  head.norm("field_norm", weights.field_norm, width);
  head.norm("option_norm", weights.option_norm, width);
  head.linear("residual_scorer.0", weights.residual_scorer_0, width, 4 * width);
  head.linear("residual_scorer.3", weights.residual_scorer_3, 1, width);
  head.scalar("prior_logit_scale", weights.prior_logit_scale);
  head.scalar("joint_logit_scale", weights.joint_logit_scale);
  head.scalar("residual_gate", weights.residual_gate);
}

}  // namespace clef
