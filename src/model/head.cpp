#include "model/head.h"

#include <algorithm>
#include <cmath>

#include "model/known_prefix.h"

namespace clef {

namespace {

constexpr float kLayerNormEps = 1e-5F;  // torch.nn.LayerNorm's default

template <typename Take>
void each_matrix(HeadScratch& s, const HeadConfig& config, const Batch& batch, Take take) {
  take(s.hidden, batch.tokens, config.hidden_size);
  for (Tensor* t : {&s.memory, &s.memory_normed}) take(*t, batch.all_tokens, config.width);
  take(s.keys_values, batch.all_tokens, 2 * config.width);
  for (Tensor* t : {&s.question, &s.last}) take(*t, batch.questions, config.hidden_size);
  for (Tensor* t : {&s.context, &s.lexical}) take(*t, batch.options, config.hidden_size);
  for (Tensor* t : {&s.options, &s.options_normed, &s.options_q, &s.options_mixed})
    take(*t, batch.options, config.width);
  take(s.options_inner, batch.options, config.feedforward);
  take(s.features, batch.options, 4 * config.width);
  for (Tensor* t : {&s.fields, &s.fields_normed, &s.fields_mixed}) take(*t, batch.questions, config.width);
  take(s.fields_qkv, batch.questions, 3 * config.width);
  take(s.fields_inner, batch.questions, config.feedforward);
  take(s.residual, batch.options, 1);
  take(s.logits, batch.options, 1);
}

LayerNorm layer_norm(const Tensor& y, const Tensor& x, const DeviceNorm& norm) {
  return {.y = y, .x = x, .gain = norm.gain, .bias = norm.bias, .eps = kLayerNormEps};
}
// Of questions or options.
Linear item_linear(const Tensor& y, const Tensor& x, const DeviceLinear& weights) {
  return {.y = y, .x = x, .w = weights.weight, .bias = weights.bias, .items = true};
}
LinearAdd item_linear_add(const Tensor& y, const Tensor& x, const DeviceLinear& weights) {
  return {.y = y, .x = x, .w = weights.weight, .bias = weights.bias, .items = true};
}
LinearGelu item_linear_gelu(const Tensor& y, const Tensor& x, const DeviceLinear& weights) {
  return {.y = y, .x = x, .w = weights.weight, .bias = weights.bias, .gelu = Gelu::erf, .items = true};
}

// exp of a learned log-scale, which the reference caps at ln 100.
float capped_exp(float log_scale) {
  return static_cast<float>(std::exp(std::min(static_cast<double>(log_scale), std::log(100.0))));
}

}  // namespace

std::size_t HeadScratch::bytes(const HeadConfig& config, const Batch& batch) {
  HeadScratch unused;
  std::size_t bytes = 0;
  each_matrix(unused, config, batch,
              [&](Tensor&, std::int64_t rows, std::int64_t cols) { bytes += Arena::bytes_for(rows, cols); });
  return bytes;
}

HeadScratch HeadScratch::take(const HeadConfig& config, const Batch& batch, Arena& arena) {
  HeadScratch s;
  each_matrix(s, config, batch,
              [&](Tensor& tensor, std::int64_t rows, std::int64_t cols) { tensor = arena.take(rows, cols); });
  s.keys = s.keys_values.col_range(0, config.width);
  s.values = s.keys_values.col_range(config.width, config.width);
  s.fields_q = s.fields_qkv.col_range(0, config.width);
  s.fields_k = s.fields_qkv.col_range(config.width, config.width);
  s.fields_v = s.fields_qkv.col_range(2 * config.width, config.width);
  return s;
}

Result<Head::Multihead> Head::load_multihead(const MultiheadWeights& weights, WeightLoader& loader) {
  Multihead attention;
  attention.q = TRY(loader.linear(weights.q));
  attention.k = TRY(loader.linear(weights.k));
  attention.v = TRY(loader.linear(weights.v));
  attention.out = TRY(loader.linear(weights.out));
  std::vector<float> bias = weights.q.bias;
  for (const LinearWeights* from : {&weights.k, &weights.v}) {
    bias.insert(bias.end(), from->bias.begin(), from->bias.end());
  }
  attention.qkv_bias = TRY(loader.vector(bias));
  return attention;
}

Result<Head> Head::load(const ModelWeights& model, const HeadConfig& config, WeightLoader& loader) {
  const HeadWeights& weights = model.head;
  Head head;
  head.lm_head_ = TRY(loader.matrix(model.lm_head));
  head.hidden_norm_ = TRY(loader.norm(weights.hidden_norm));
  head.option_summary_norm_ = TRY(loader.norm(weights.option_summary_norm));
  head.field_norm_ = TRY(loader.norm(weights.field_norm));
  head.option_norm_ = TRY(loader.norm(weights.option_norm));
  head.memory_projection_ = TRY(loader.matrix(weights.memory_projection));
  head.question_projection_ = TRY(loader.matrix(weights.question_projection));
  head.option_question_projection_ = TRY(loader.matrix(weights.option_question_projection));
  head.global_projection_ = TRY(loader.matrix(weights.global_projection));
  head.option_context_projection_ = TRY(loader.matrix(weights.option_context_projection));
  head.option_lexical_projection_ = TRY(loader.matrix(weights.option_lexical_projection));
  head.type_embedding_ = TRY(loader.matrix(weights.type_embedding));
  for (const EvidenceLayerWeights& from : weights.evidence_layers) {
    EvidenceLayer layer;
    layer.query_norm = TRY(loader.norm(from.query_norm));
    layer.memory_norm = TRY(loader.norm(from.memory_norm));
    layer.feedforward_norm = TRY(loader.norm(from.feedforward_norm));
    layer.attention = TRY(load_multihead(from.attention, loader));
    layer.up = TRY(loader.linear(from.up));
    layer.down = TRY(loader.linear(from.down));
    head.evidence_layers_.push_back(layer);
  }
  for (const FieldLayerWeights& from : weights.layers) {
    FieldLayer layer;
    layer.norm1 = TRY(loader.norm(from.norm1));
    layer.norm2 = TRY(loader.norm(from.norm2));
    layer.norm3 = TRY(loader.norm(from.norm3));
    layer.self_attn = TRY(load_multihead(from.self_attn, loader));
    layer.multihead_attn = TRY(load_multihead(from.multihead_attn, loader));
    layer.linear1 = TRY(loader.linear(from.linear1));
    layer.linear2 = TRY(loader.linear(from.linear2));
    head.layers_.push_back(layer);
  }
  head.residual_scorer_0_ = TRY(loader.linear(weights.residual_scorer_0));
  head.residual_scorer_3_ = TRY(loader.linear(weights.residual_scorer_3));
  head.prior_scale_ = capped_exp(weights.prior_logit_scale);
  head.joint_scale_ = capped_exp(weights.joint_logit_scale);
  head.gate_ = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(weights.residual_gate))));
  head.head_dim_ = config.width / config.heads;
  return head;
}

Projections Head::keys_and_values(const Tensor& y, const Tensor& x, const Multihead& attention) {
  return {.y = y,
          .x = x,
          .first = attention.k.weight,
          .second = attention.v.weight,
          .third = {},
          .bias = attention.qkv_bias.col_range(attention.q.weight.rows, y.cols)};
}
Projections Head::item_queries_keys_values(const Tensor& y, const Tensor& x, const Multihead& attention) {
  return {.y = y,
          .x = x,
          .first = attention.q.weight,
          .second = attention.k.weight,
          .third = attention.v.weight,
          .bias = attention.qkv_bias,
          .items = true};
}

void Head::forward(const EvidenceLayer& layer, Pass& pass, const Batch& batch, const HeadScratch& s) const {
  pass.run(layer_norm(s.options_normed, s.options, layer.query_norm));
  pass.run(layer_norm(s.memory_normed, s.memory, layer.memory_norm));
  pass.run(item_linear(s.options_q, s.options_normed, layer.attention.q));
  pass.run(keys_and_values(s.keys_values, s.memory_normed, layer.attention));
  pass.run(CrossAttention{.y = s.options_mixed,
                          .q = s.options_q,
                          .k = s.keys,
                          .v = s.values,
                          .cu_queries = batch.cu_record_options,
                          .cu_keys = batch.cu_seqlens,
                          .head_dim = head_dim_});
  pass.run(item_linear_add(s.options, s.options_mixed, layer.attention.out));
  pass.run(layer_norm(s.options_normed, s.options, layer.feedforward_norm));
  pass.run(item_linear_gelu(s.options_inner, s.options_normed, layer.up));
  pass.run(item_linear_add(s.options, s.options_inner, layer.down));
}

void Head::forward(const FieldLayer& layer, Pass& pass, const Batch& batch, const HeadScratch& s) const {
  pass.run(layer_norm(s.fields_normed, s.fields, layer.norm1));
  pass.run(item_queries_keys_values(s.fields_qkv, s.fields_normed, layer.self_attn));
  pass.run(CrossAttention{.y = s.fields_mixed,
                          .q = s.fields_q,
                          .k = s.fields_k,
                          .v = s.fields_v,
                          .cu_queries = batch.cu_questions,
                          .cu_keys = batch.cu_questions,
                          .head_dim = head_dim_});
  pass.run(item_linear_add(s.fields, s.fields_mixed, layer.self_attn.out));

  pass.run(layer_norm(s.fields_normed, s.fields, layer.norm2));
  pass.run(item_linear(s.fields_q, s.fields_normed, layer.multihead_attn.q));
  pass.run(keys_and_values(s.keys_values, s.memory, layer.multihead_attn));  // of the memory itself, not its norm
  pass.run(CrossAttention{.y = s.fields_mixed,
                          .q = s.fields_q,
                          .k = s.keys,
                          .v = s.values,
                          .cu_queries = batch.cu_questions,
                          .cu_keys = batch.cu_seqlens,
                          .head_dim = head_dim_});
  pass.run(item_linear_add(s.fields, s.fields_mixed, layer.multihead_attn.out));

  pass.run(layer_norm(s.fields_normed, s.fields, layer.norm3));
  pass.run(item_linear_gelu(s.fields_inner, s.fields_normed, layer.linear1));
  pass.run(item_linear_add(s.fields, s.fields_inner, layer.linear2));
}

void Head::forward(Pass& pass, const Batch& batch, const Tensor& hidden, const HeadScratch& s) const {
  pass.run(layer_norm(s.hidden, hidden, hidden_norm_));
  // memory_normed serves for the new tokens' memory until the known ones stand before it.
  const Tensor memory = batch.known == nullptr ? s.memory : s.memory_normed.row_range(0, batch.tokens);
  pass.run(Linear{.y = memory, .x = s.hidden, .w = memory_projection_, .bias = {}});
  if (batch.known != nullptr) {
    pass.run(PrependRows{.y = s.memory, .x = memory, .prefix = batch.known->memory, .cu_seqlens = batch.cu_seqlens});
  } else if (batch.kept != nullptr) {
    batch.kept->keep(pass, batch.kept->memory, memory);
  }
  pass.mark("head", "memory", s.memory);
  pass.run(SpanMean{.y = s.question, .x = s.hidden, .spans = batch.question_spans});
  pass.run(SpanMean{.y = s.last, .x = s.hidden, .spans = batch.last_token_spans});
  pass.run(SpanMean{.y = s.context, .x = s.hidden, .spans = batch.option_spans});
  pass.run(EmbedMean{.y = s.lexical, .ids = batch.ids, .spans = batch.option_spans, .table = lm_head_});

  // fields_normed serves for the question's part of the options until the fields need it.
  pass.run(Linear{.y = s.options, .x = s.context, .w = option_context_projection_, .bias = {}, .items = true});
  pass.run(LinearAdd{.y = s.options, .x = s.lexical, .w = option_lexical_projection_, .bias = {}, .items = true});
  pass.run(Linear{.y = s.fields_normed, .x = s.question, .w = option_question_projection_, .bias = {}, .items = true});
  pass.run(AddRows{.y = s.options, .x = s.fields_normed, .index = batch.question_of_option});
  pass.mark("head", "option_queries", s.options);
  for (const EvidenceLayer& layer : evidence_layers_) forward(layer, pass, batch, s);
  pass.mark("head", "routed_options", s.options);

  pass.run(Linear{.y = s.fields, .x = s.question, .w = question_projection_, .bias = {}, .items = true});
  pass.run(
      OptionSummary{.z = s.fields_mixed, .options = s.options, .fields = s.fields, .cu_options = batch.cu_options});
  pass.run(layer_norm(s.fields_normed, s.fields_mixed, option_summary_norm_));
  pass.run(AddRows{.y = s.fields, .x = s.fields_normed, .index = {}});
  pass.run(LinearAdd{.y = s.fields, .x = s.last, .w = global_projection_, .bias = {}, .items = true});
  pass.run(AddRows{.y = s.fields, .x = type_embedding_, .index = batch.question_types});
  pass.mark("head", "fields_in", s.fields);
  for (const FieldLayer& layer : layers_) forward(layer, pass, batch, s);
  pass.run(layer_norm(s.fields_normed, s.fields, field_norm_));
  pass.mark("head", "fields_out", s.fields_normed);

  pass.run(layer_norm(s.options_normed, s.options, option_norm_));
  pass.run(ScorerFeatures{.y = s.features,
                          .fields = s.fields_normed,
                          .options = s.options_normed,
                          .question_of_option = batch.question_of_option});
  pass.run(item_linear_gelu(s.options_mixed, s.features, residual_scorer_0_));
  pass.run(item_linear(s.residual, s.options_mixed, residual_scorer_3_));
  pass.run(OptionLogits{.logits = s.logits,
                        .lexical = s.lexical,
                        .question = s.question,
                        .last = s.last,
                        .fields = s.fields_normed,
                        .options = s.options_normed,
                        .residual = s.residual,
                        .question_of_option = batch.question_of_option,
                        .prior_scale = prior_scale_,
                        .joint_scale = joint_scale_,
                        .gate = gate_});
}

std::vector<Result<Decisions>> decide(const Batch& batch, std::span<const float> logits) {
  std::vector<Result<Decisions>> decisions;
  std::size_t next = 0;
  for (const auto& questions : batch.num_options) {
    Decisions record;
    bool finite = true;
    for (const std::int64_t count : questions) {
      const auto part = logits.subspan(next, static_cast<std::size_t>(count));
      next += part.size();
      finite = finite && std::all_of(part.begin(), part.end(), [](float logit) { return std::isfinite(logit); });
      record.logits.emplace_back(part.begin(), part.end());
      record.probabilities.push_back(softmax(part));
    }
    if (finite) {
      decisions.emplace_back(std::move(record));
    } else {
      decisions.emplace_back(Error{Errc::non_finite, "the network gave a logit that is not finite"});
    }
  }
  CHECK(next == logits.size());
  return decisions;
}

}  // namespace clef
