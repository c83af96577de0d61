#include "model/llama_gguf.h"

#include <cmath>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "base/f16.h"
#include "model/gguf_keys.h"
#include "model/weights_bind.h"

namespace clef {

namespace {

constexpr std::string_view kDecisionType = "clef.decision.type";

Error missing(std::string_view key) { return Error{Errc::bad_model, fmt::format("model: missing or invalid {}", key)}; }

Result<std::int64_t> size_key(const GgufMetadata& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  const std::uint64_t* number = found == metadata.end() ? nullptr : found->second.if_unsigned();
  constexpr std::uint64_t kMaxDimension = std::uint64_t{1} << 24;
  if (number == nullptr || *number == 0 || *number > kMaxDimension) return missing(key);
  return static_cast<std::int64_t>(*number);
}

Result<float> number_key(const GgufMetadata& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  if (found == metadata.end() || found->second.if_float() == nullptr) return missing(key);
  return static_cast<float>(*found->second.if_float());
}

// Rows of a tensor, which the keys do not tell.
Result<std::int64_t> rows_of(const TensorTable& tensors, std::string_view name) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) return Error{Errc::bad_model, fmt::format("model: missing tensor {}", name)};
  return found->second.shape.front();
}

Result<TextConfig> parse_text(const Gguf& gguf) {
  const auto size = [&](std::string_view key) { return size_key(gguf.metadata, key); };
  TextConfig c;
  c.hidden_size = TRY(size("clef.embedding_length"));
  c.intermediate_size = TRY(size("clef.feed_forward_length"));
  c.vocab_size = TRY(rows_of(gguf.tensors, "token_embd.weight"));
  const std::int64_t num_layers = TRY(size("clef.block_count"));
  if (num_layers > 128) return missing("clef.block_count");
  for (std::int64_t i = 0; i < num_layers; ++i) {
    const bool is_linear = gguf.tensors.contains(fmt::format("blk.{}.ssm_a", i));
    c.layer_types.push_back(is_linear ? LayerType::linear_attention : LayerType::full_attention);
  }
  c.num_attention_heads = TRY(size("clef.attention.head_count"));
  c.num_key_value_heads = TRY(size("clef.attention.head_count_kv"));
  c.head_dim = TRY(size("clef.attention.key_length"));
  if (TRY(size("clef.attention.value_length")) != c.head_dim) return missing("clef.attention.value_length");
  c.linear_num_key_heads = TRY(size("clef.ssm.group_count"));
  c.linear_num_value_heads = TRY(size("clef.ssm.time_step_rank"));
  c.linear_key_head_dim = TRY(size("clef.ssm.state_size"));
  const std::int64_t inner = TRY(size("clef.ssm.inner_size"));
  if (inner % c.linear_num_value_heads != 0) return missing("clef.ssm.inner_size");
  c.linear_value_head_dim = inner / c.linear_num_value_heads;
  c.linear_conv_kernel_dim = TRY(size("clef.ssm.conv_kernel"));
  c.rms_norm_eps = TRY(number_key(gguf.metadata, "clef.attention.layer_norm_rms_epsilon"));
  c.rope_theta = TRY(number_key(gguf.metadata, "clef.rope.freq_base"));
  c.rotary_dim = TRY(size("clef.rope.dimension_count"));
  const std::string_view sections = "clef.rope.dimension_sections";
  const auto found = gguf.metadata.find(sections);
  const GgufArray* array = found == gguf.metadata.end() ? nullptr : found->second.if_array();
  if (array == nullptr || !array->holds_integers()) return missing(sections);
  c.mrope_section = array->integers();
  if (c.mrope_section.size() == 4 && c.mrope_section.back() == 0) c.mrope_section.pop_back();  // an axis of no model
  return c;
}

Result<HeadConfig> parse_head(const Gguf& gguf, std::int64_t hidden_size) {
  const auto size = [&](std::string_view key) { return size_key(gguf.metadata, key); };
  constexpr float kEpsilon = 1e-5F;  // torch.nn.LayerNorm's, which the head was trained with
  const std::string_view epsilon = "clef.attention.layer_norm_epsilon";
  if (TRY(number_key(gguf.metadata, epsilon)) != kEpsilon) return missing(epsilon);
  HeadConfig c;
  c.hidden_size = hidden_size;
  c.width = TRY(rows_of(gguf.tensors, "decision.proj_memory.weight"));
  c.routing_layers = TRY(size("clef.decision.routing_block_count"));
  c.layers = TRY(size("clef.decision.block_count"));
  c.heads = TRY(size("clef.decision.head_count"));
  c.feedforward = TRY(rows_of(gguf.tensors, "dec.blk.0.ffn_up.weight"));
  return c;
}

// The file's tensors, brought into the release's order and type where they differ.
class Tensors {
 public:
  Tensors(std::string_view label, const TensorTable& stored) : label_(label), table_(stored) {}

  const TensorTable& table() const { return table_; }
  std::shared_ptr<void> take_owned() { return std::move(owned_); }

  // Whatever the matrices among `bindings` are stored as, as BF16.
  Status narrow(const std::vector<Binding>& bindings);

  void restore_shape(const std::string& name, const Shape& shape) {
    const auto found = table_.find(name);
    if (found != table_.end() && count_of(found->second.shape) == count_of(shape)) found->second.shape = shape;
  }

  // Heads of `unit` rows each, from `first` on: from [group][key head] to [key head][group].
  void order_rows(const std::string& name, std::int64_t first, std::int64_t unit, const TextConfig& c);
  void order_columns(const std::string& name, std::int64_t unit, const TextConfig& c);

 private:
  std::byte* replace(FileTensor& tensor, DType dtype) {
    const auto count = static_cast<std::size_t>(count_of(tensor.shape));
    std::vector<std::byte>& bytes = owned_->emplace_back(count * size_of(dtype));
    tensor.bytes = bytes;
    tensor.dtype = dtype;
    return bytes.data();
  }

  std::string_view label_;
  TensorTable table_;
  std::shared_ptr<std::deque<std::vector<std::byte>>> owned_ = std::make_shared<std::deque<std::vector<std::byte>>>();
};

float load(const std::byte* data, DType dtype) {
  if (dtype == DType::f32) {
    float value = 0;
    std::memcpy(&value, data, sizeof value);
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, data, sizeof half);
  return dtype == DType::f16 ? f16_to_f32(half) : bf16_to_f32(half);
}

Status Tensors::narrow(const std::vector<Binding>& bindings) {
  for (const Binding& binding : bindings) {
    const auto found = table_.find(binding.name);
    if (found == table_.end() || found->second.dtype == DType::bf16) continue;
    if (!std::holds_alternative<ToMatrices>(binding.target)) continue;
    const FileTensor stored = found->second;
    std::byte* out = replace(found->second, DType::bf16);
    const auto count = static_cast<std::size_t>(count_of(stored.shape));
    for (std::size_t i = 0; i < count; ++i) {
      const float value = load(stored.bytes.data() + i * size_of(stored.dtype), stored.dtype);
      const std::uint16_t half = f32_to_bf16(value);
      if (bf16_to_f32(half) != value) {
        return Error{
            Errc::unsupported,
            fmt::format("{}: model: tensor {} of type {} holds {}, which is no BF16 value: its weights are not "
                        "the release's; make a file of the snapshot with `clef-tool convert`",
                        label_, binding.name, name_of(stored.dtype), value)};
      }
      std::memcpy(out + i * sizeof half, &half, sizeof half);
    }
  }
  return {};
}

// Where the release's head `head` stands in the file. Source: _LinearAttentionVReorderBase.
std::int64_t stored_head(std::int64_t head, const TextConfig& c) {
  const std::int64_t groups = c.linear_num_value_heads / c.linear_num_key_heads;
  return head % groups * c.linear_num_key_heads + head / groups;
}

void Tensors::order_rows(const std::string& name, std::int64_t first, std::int64_t unit, const TextConfig& c) {
  const auto found = table_.find(name);
  if (found == table_.end() || c.linear_num_value_heads == c.linear_num_key_heads) return;
  const FileTensor stored = found->second;
  const std::int64_t rows = stored.shape.front();
  if (rows != first + unit * c.linear_num_value_heads) return;  // the binder says what is wrong with it
  const auto row_bytes = static_cast<std::size_t>(count_of(stored.shape) / rows) * size_of(stored.dtype);
  std::byte* out = replace(found->second, stored.dtype);
  std::memcpy(out, stored.bytes.data(), static_cast<std::size_t>(first) * row_bytes);
  const std::size_t head_bytes = static_cast<std::size_t>(unit) * row_bytes;
  for (std::int64_t head = 0; head < c.linear_num_value_heads; ++head) {
    const auto to = static_cast<std::size_t>(first) * row_bytes + static_cast<std::size_t>(head) * head_bytes;
    const auto from =
        static_cast<std::size_t>(first) * row_bytes + static_cast<std::size_t>(stored_head(head, c)) * head_bytes;
    std::memcpy(out + to, stored.bytes.data() + from, head_bytes);
  }
}

void Tensors::order_columns(const std::string& name, std::int64_t unit, const TextConfig& c) {
  const auto found = table_.find(name);
  if (found == table_.end() || c.linear_num_value_heads == c.linear_num_key_heads) return;
  const FileTensor stored = found->second;
  if (stored.shape.size() != 2 || stored.shape[1] != unit * c.linear_num_value_heads) return;
  const std::size_t head_bytes = static_cast<std::size_t>(unit) * size_of(stored.dtype);
  const std::size_t row_bytes = static_cast<std::size_t>(stored.shape[1]) * size_of(stored.dtype);
  std::byte* out = replace(found->second, stored.dtype);
  for (std::int64_t row = 0; row < stored.shape[0]; ++row) {
    const std::size_t start = static_cast<std::size_t>(row) * row_bytes;
    for (std::int64_t head = 0; head < c.linear_num_value_heads; ++head) {
      std::memcpy(out + start + static_cast<std::size_t>(head) * head_bytes,
                  stored.bytes.data() + start + static_cast<std::size_t>(stored_head(head, c)) * head_bytes,
                  head_bytes);
    }
  }
}

using Table = std::vector<Binding>;

void append(Table& table, const std::string& prefix, Table rows) {
  for (Binding& row : rows) {
    row.name = prefix + row.name;
    table.push_back(std::move(row));
  }
}

void add_norm(Table& table, const std::string& name, NormWeights& field, std::int64_t width) {
  append(table, name, {vector(".weight", field.gain, width), vector(".bias", field.bias, width)});
}

void add_linear(Table& table, const std::string& name, LinearWeights& field, std::int64_t rows, std::int64_t cols) {
  append(table, name, {matrix(".weight", field.weight, rows, cols), vector(".bias", field.bias, rows)});
}

void add_attention(Table& table, const std::string& name, MultiheadWeights& field, std::int64_t width) {
  add_linear(table, name + "_q", field.q, width, width);
  add_linear(table, name + "_k", field.k, width, width);
  add_linear(table, name + "_v", field.v, width, width);
  add_linear(table, name + "_o", field.out, width, width);
}

Table layer_bindings(const TextConfig& c, LayerWeights& w) {
  const std::int64_t hidden = c.hidden_size;
  Table table = {
      vector("attn_norm.weight", w.input_norm, hidden),
      vector("post_attention_norm.weight", w.post_attention_norm, hidden),
      matrix("ffn_gate.weight", w.mlp.gate, c.intermediate_size, hidden),
      matrix("ffn_up.weight", w.mlp.up, c.intermediate_size, hidden),
      matrix("ffn_down.weight", w.mlp.down, hidden, c.intermediate_size),
  };
  if (auto* delta = std::get_if<DeltaNetWeights>(&w.mixer)) {
    const std::int64_t heads = c.linear_num_value_heads, taps = c.linear_conv_kernel_dim;
    append(table, "",
           {matrix("attn_qkv.weight", delta->in_qkv, c.conv_width(), hidden),
            matrix("attn_gate.weight", delta->in_z, c.value_width(), hidden),
            matrix("ssm_beta.weight", delta->in_b, heads, hidden),
            matrix("ssm_alpha.weight", delta->in_a, heads, hidden),
            {.name = "ssm_conv1d.weight", .shape = {c.conv_width(), taps}, .target = ToTapMajor{&delta->conv, taps}},
            vector("ssm_a", delta->neg_exp_a_log, heads),
            vector("ssm_dt.bias", delta->dt_bias, heads),
            vector("ssm_norm.weight", delta->norm, c.linear_value_head_dim),
            matrix("ssm_out.weight", delta->out, hidden, c.value_width())});
  } else {
    auto& attention = std::get<AttentionWeights>(w.mixer);
    append(table, "",
           {matrix("attn_q.weight", attention.q_gate, 2 * c.query_width(), hidden),
            matrix("attn_k.weight", attention.k, c.kv_width(), hidden),
            matrix("attn_v.weight", attention.v, c.kv_width(), hidden),
            matrix("attn_output.weight", attention.out, hidden, c.query_width()),
            vector("attn_q_norm.weight", attention.q_norm, c.head_dim),
            vector("attn_k_norm.weight", attention.k_norm, c.head_dim)});
  }
  return table;
}

// `scales`: prior, joint, gate, as the logits use them.
void add_head(Table& table, const HeadConfig& c, HeadWeights& w, std::vector<float>& scales) {
  const std::int64_t hidden = c.hidden_size, width = c.width, inner = c.feedforward;
  add_norm(table, "decision.hidden_norm", w.hidden_norm, hidden);
  append(
      table, "decision.",
      {matrix("proj_memory.weight", w.memory_projection, width, hidden),
       matrix("proj_question.weight", w.question_projection, width, hidden),
       matrix("proj_option_question.weight", w.option_question_projection, width, hidden),
       matrix("proj_global.weight", w.global_projection, width, hidden),
       matrix("proj_option_context.weight", w.option_context_projection, width, hidden),
       matrix("proj_option_lexical.weight", w.option_lexical_projection, width, hidden), vector("scales", scales, 3)});
  append(table, "", {matrix("token_types.weight", w.type_embedding, 3, width)});
  for (std::size_t i = 0; i < w.evidence_layers.size(); ++i) {
    EvidenceLayerWeights& layer = w.evidence_layers[i];
    const std::string block = fmt::format("dec.blk.{}.", i);
    add_norm(table, block + "cross_attn_norm", layer.query_norm, width);
    add_norm(table, block + "cross_attn_norm_kv", layer.memory_norm, width);
    add_attention(table, block + "cross_attn", layer.attention, width);
    add_norm(table, block + "ffn_norm", layer.feedforward_norm, width);
    add_linear(table, block + "ffn_up", layer.up, inner, width);
    add_linear(table, block + "ffn_down", layer.down, width, inner);
  }
  for (std::size_t i = 0; i < w.layers.size(); ++i) {
    FieldLayerWeights& layer = w.layers[i];
    const std::string block = fmt::format("dec.blk.{}.", w.evidence_layers.size() + i);
    add_norm(table, block + "attn_norm", layer.norm1, width);
    add_attention(table, block + "attn", layer.self_attn, width);
    add_norm(table, block + "cross_attn_norm", layer.norm2, width);
    add_attention(table, block + "cross_attn", layer.multihead_attn, width);
    add_norm(table, block + "ffn_norm", layer.norm3, width);
    add_linear(table, block + "ffn_up", layer.linear1, inner, width);
    add_linear(table, block + "ffn_down", layer.linear2, width, inner);
  }
  add_norm(table, "decision.option_summary_norm", w.option_summary_norm, width);
  add_norm(table, "decision.field_norm", w.field_norm, width);
  add_norm(table, "decision.option_norm", w.option_norm, width);
  add_linear(table, "decision.scorer", w.residual_scorer_0, width, 4 * width);
  add_linear(table, "decision.scorer_out", w.residual_scorer_3, 1, width);
}

// The number that the release stores, of which the file has a function: the BF16 value next to the inverse, if it leads
// to the stored value again but for the rounding, so that our own formula gives the snapshot's bits. Else the inverse.
float undo(double stored, double inverse, double (*formula)(double)) {
  const float rounded = bf16_to_f32(f32_to_bf16(static_cast<float>(inverse)));
  constexpr double kRounding = 4e-7;  // three units in the last place of a float
  const bool is_it = std::abs(formula(rounded) - stored) <= kRounding * std::abs(stored);
  return is_it ? rounded : static_cast<float>(inverse);
}

}  // namespace

bool is_llama_clef(const GgufMetadata& metadata) { return metadata.contains(kDecisionType); }

Result<ModelConfig> parse_llama_config(const Gguf& gguf) {
  const auto type = gguf.metadata.find(kDecisionType);
  const std::string_view* name = type == gguf.metadata.end() ? nullptr : type->second.if_string();
  if (name == nullptr || *name != "clef") return missing(kDecisionType);
  ModelConfig config;
  if (const auto found = gguf.metadata.find(gguf_key::kName); found != gguf.metadata.end()) {
    if (const std::string_view* text = found->second.if_string()) config.name = *text;
  }
  config.text = TRY(parse_text(gguf));
  config.head = TRY(parse_head(gguf, config.text.hidden_size));
  TRY(validate(config));
  return config;
}

Status bind_llama_weights(std::string_view label, const Gguf& gguf, const ModelConfig& config, ModelWeights& weights,
                          std::shared_ptr<void>& owned) {
  const TextConfig& c = config.text;
  size_layers(config, weights);
  Table table;
  append(table, "",
         {matrix("token_embd.weight", weights.embed_tokens, c.vocab_size, c.hidden_size),
          matrix("output.weight", weights.lm_head, c.vocab_size, c.hidden_size),
          vector("output_norm.weight", weights.norm, c.hidden_size)});
  Tensors tensors(label, gguf.tensors);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    append(table, block, layer_bindings(c, weights.layers[i]));
    if (c.layer_types[i] == LayerType::full_attention) continue;
    const std::int64_t dim = c.linear_value_head_dim, keys = 2 * c.key_width();
    tensors.order_rows(block + "attn_qkv.weight", keys, dim, c);
    tensors.order_rows(block + "attn_gate.weight", 0, dim, c);
    tensors.order_rows(block + "ssm_beta.weight", 0, 1, c);
    tensors.order_rows(block + "ssm_alpha.weight", 0, 1, c);
    tensors.order_rows(block + "ssm_conv1d.weight", keys, dim, c);
    tensors.order_rows(block + "ssm_a", 0, 1, c);
    tensors.order_rows(block + "ssm_dt.bias", 0, 1, c);
    tensors.order_columns(block + "ssm_out.weight", dim, c);
  }
  std::vector<float> scales;
  add_head(table, config.head, weights.head, scales);
  tensors.restore_shape("decision.scorer_out.weight", {1, config.head.width});  // gguf-py drops a first dimension of 1
  TRY(tensors.narrow(table));
  TRY(clef::bind(label, tensors.table(), table));

  for (LayerWeights& layer : weights.layers) {
    auto* delta = std::get_if<DeltaNetWeights>(&layer.mixer);
    if (delta == nullptr) continue;
    constexpr auto kNegExp = [](double a_log) { return -std::exp(a_log); };
    for (float& value : delta->neg_exp_a_log) {
      if (!(value < 0)) continue;
      value = static_cast<float>(kNegExp(undo(value, std::log(-static_cast<double>(value)), kNegExp)));
    }
  }
  HeadWeights& head = weights.head;
  constexpr auto kExp = [](double raw) { return std::exp(raw); };
  constexpr auto kSigmoid = [](double raw) { return 1 / (1 + std::exp(-raw)); };
  head.prior_logit_scale = undo(scales[0], std::log(static_cast<double>(scales[0])), kExp);
  head.joint_logit_scale = undo(scales[1], std::log(static_cast<double>(scales[1])), kExp);
  head.residual_gate =
      undo(scales[2], std::log(static_cast<double>(scales[2]) / (1 - static_cast<double>(scales[2]))), kSigmoid);
  owned = tensors.take_owned();
  return {};
}

}  // namespace clef
