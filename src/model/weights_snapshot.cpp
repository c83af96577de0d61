// The tensors of a Hugging Face snapshot. Source: Qwen3_5ForConditionalGeneration, modeling_qwen3_5.py.
#include "model/weights_bind.h"

namespace clef {

namespace {

using Table = std::vector<Binding>;

void append(Table& table, const std::string& prefix, Table rows) {
  for (Binding& row : rows) {
    row.name = prefix + row.name;
    table.push_back(std::move(row));
  }
}

Table delta_net(const TextConfig& c, DeltaNetWeights& w) {
  const std::int64_t hidden = c.hidden_size, heads = c.linear_num_value_heads, taps = c.linear_conv_kernel_dim;
  return {
      matrix("in_proj_qkv.weight", w.in_qkv, c.conv_width(), hidden),
      matrix("in_proj_z.weight", w.in_z, c.value_width(), hidden),
      matrix("in_proj_b.weight", w.in_b, heads, hidden),
      matrix("in_proj_a.weight", w.in_a, heads, hidden),
      {.name = "conv1d.weight", .shape = {c.conv_width(), 1, taps}, .target = ToTapMajor{&w.conv, taps}},
      vector("A_log", w.neg_exp_a_log, heads, Fold::neg_exp),
      vector("dt_bias", w.dt_bias, heads),
      vector("norm.weight", w.norm, c.linear_value_head_dim),
      matrix("out_proj.weight", w.out, hidden, c.value_width()),
  };
}

Table attention(const TextConfig& c, AttentionWeights& w) {
  const std::int64_t hidden = c.hidden_size;
  return {
      matrix("q_proj.weight", w.q_gate, 2 * c.query_width(), hidden),
      matrix("k_proj.weight", w.k, c.kv_width(), hidden),
      matrix("v_proj.weight", w.v, c.kv_width(), hidden),
      matrix("o_proj.weight", w.out, hidden, c.query_width()),
      vector("q_norm.weight", w.q_norm, c.head_dim, Fold::one_plus),
      vector("k_norm.weight", w.k_norm, c.head_dim, Fold::one_plus),
  };
}

Table mlp_and_norms(const TextConfig& c, LayerWeights& w) {
  return {
      vector("input_layernorm.weight", w.input_norm, c.hidden_size, Fold::one_plus),
      vector("post_attention_layernorm.weight", w.post_attention_norm, c.hidden_size, Fold::one_plus),
      matrix("mlp.gate_proj.weight", w.mlp.gate, c.intermediate_size, c.hidden_size),
      matrix("mlp.up_proj.weight", w.mlp.up, c.intermediate_size, c.hidden_size),
      matrix("mlp.down_proj.weight", w.mlp.down, c.hidden_size, c.intermediate_size),
  };
}

void add_norm(Table& table, const std::string& name, NormWeights& field, std::int64_t width) {
  table.push_back(vector(name + ".weight", field.gain, width));
  table.push_back(vector(name + ".bias", field.bias, width));
}

void add_linear(Table& table, const std::string& name, LinearWeights& field, std::int64_t rows, std::int64_t cols) {
  table.push_back(matrix(name + ".weight", field.weight, rows, cols));
  table.push_back(vector(name + ".bias", field.bias, rows));
}

Table vision_tower(const VisionConfig& c, VisionWeights& w) {
  const std::int64_t width = c.hidden_size, merged = c.merge_width();
  Table table;
  add_linear(table, "patch_embed.proj", w.patch_embed, width, c.patch_width());
  table.front().shape = {width, c.in_channels, c.temporal_patch_size, c.patch_size, c.patch_size};
  table.push_back(matrix("pos_embed.weight", w.pos_embed, c.num_position_embeddings, width));
  for (std::size_t i = 0; i < w.blocks.size(); ++i) {
    VisionBlockWeights& block = w.blocks[i];
    const std::string prefix = fmt::format("blocks.{}.", i);
    add_norm(table, prefix + "norm1", block.norm1, width);
    add_linear(table, prefix + "attn.qkv", block.qkv, 3 * width, width);
    add_linear(table, prefix + "attn.proj", block.proj, width, width);
    add_norm(table, prefix + "norm2", block.norm2, width);
    add_linear(table, prefix + "mlp.linear_fc1", block.fc1, c.intermediate_size, width);
    add_linear(table, prefix + "mlp.linear_fc2", block.fc2, width, c.intermediate_size);
  }
  add_norm(table, "merger.norm", w.merger_norm, width);
  add_linear(table, "merger.linear_fc1", w.merger_fc1, merged, merged);
  add_linear(table, "merger.linear_fc2", w.merger_fc2, c.out_hidden_size, merged);
  return table;
}

}  // namespace

std::vector<Binding> snapshot_bindings(const ModelConfig& config, ModelWeights& weights) {
  const TextConfig& text = config.text;
  size_layers(config, weights);
  Table table;
  append(table, "model.language_model.",
         {matrix("embed_tokens.weight", weights.embed_tokens, text.vocab_size, text.hidden_size)});
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    LayerWeights& layer = weights.layers[i];
    const std::string prefix = fmt::format("model.language_model.layers.{}.", i);
    append(table, prefix, mlp_and_norms(text, layer));
    if (auto* mixer = std::get_if<DeltaNetWeights>(&layer.mixer)) {
      append(table, prefix + "linear_attn.", delta_net(text, *mixer));
    } else {
      append(table, prefix + "self_attn.", attention(text, std::get<AttentionWeights>(layer.mixer)));
    }
  }
  append(table, "model.language_model.", {vector("norm.weight", weights.norm, text.hidden_size, Fold::one_plus)});
  if (config.vision) append(table, "model.visual.", vision_tower(*config.vision, weights.vision));
  append(table, "", {matrix("lm_head.weight", weights.lm_head, text.vocab_size, text.hidden_size)});
  add_head_bindings(config.head, weights.head, table);
  return table;
}

}  // namespace clef
