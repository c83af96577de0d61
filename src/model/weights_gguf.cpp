// The tensors of a Clef GGUF: projections that read the same input are stacked, norms are folded to float32.
#include "model/weights_bind.h"

namespace clef {

namespace {

using Table = std::vector<Binding>;

// Matrices are stored as the releases have them; vectors as the engine reads them, already folded.
void append(Table& table, const std::string& prefix, Table rows) {
  for (Binding& row : rows) {
    row.name = prefix + row.name;
    row.storage = std::holds_alternative<ToMatrices>(row.target) ? Storage::bf16 : Storage::f32;
    table.push_back(std::move(row));
  }
}

Table delta_net(const TextConfig& c, DeltaNetWeights& w) {
  const std::int64_t heads = c.linear_num_value_heads, taps = c.linear_conv_kernel_dim;
  return {
      fused("ssm_in.weight",
            {{&w.in_qkv, c.conv_width()}, {&w.in_z, c.value_width()}, {&w.in_b, heads}, {&w.in_a, heads}},
            c.hidden_size),
      matrix("ssm_out.weight", w.out, c.hidden_size, c.value_width()),
      {.name = "ssm_conv1d.weight", .shape = {c.conv_width(), taps}, .target = ToTapMajor{&w.conv, taps}},
      vector("ssm_dt.bias", w.dt_bias, heads),
      vector("ssm_a", w.neg_exp_a_log, heads),
      vector("ssm_norm.weight", w.norm, c.linear_value_head_dim),
  };
}

Table attention(const TextConfig& c, AttentionWeights& w) {
  return {
      fused("attn_qkv.weight", {{&w.q_gate, 2 * c.query_width()}, {&w.k, c.kv_width()}, {&w.v, c.kv_width()}},
            c.hidden_size),
      matrix("attn_output.weight", w.out, c.hidden_size, c.query_width()),
      vector("attn_q_norm.weight", w.q_norm, c.head_dim),
      vector("attn_k_norm.weight", w.k_norm, c.head_dim),
  };
}

Table mlp_and_norms(const TextConfig& c, LayerWeights& w) {
  return {
      vector("attn_norm.weight", w.input_norm, c.hidden_size),
      vector("ffn_norm.weight", w.post_attention_norm, c.hidden_size),
      fused("ffn_gate_up.weight", {{&w.mlp.gate, c.intermediate_size}, {&w.mlp.up, c.intermediate_size}},
            c.hidden_size),
      matrix("ffn_down.weight", w.mlp.down, c.hidden_size, c.intermediate_size),
  };
}

void add_norm(Table& table, const std::string& name, NormWeights& field, std::int64_t width) {
  append(table, "v." + name, {vector(".weight", field.gain, width), vector(".bias", field.bias, width)});
}

void add_linear(Table& table, const std::string& name, LinearWeights& field, std::int64_t rows, std::int64_t cols) {
  append(table, "v." + name, {matrix(".weight", field.weight, rows, cols), vector(".bias", field.bias, rows)});
}

void add_vision_tower(Table& table, const VisionConfig& c, VisionWeights& w) {
  const std::int64_t width = c.hidden_size, merged = c.merge_width();
  add_linear(table, "patch_embd", w.patch_embed, width, c.patch_width());
  append(table, "v.", {matrix("pos_embd.weight", w.pos_embed, c.num_position_embeddings, width)});
  for (std::size_t i = 0; i < w.blocks.size(); ++i) {
    VisionBlockWeights& block = w.blocks[i];
    const std::string prefix = fmt::format("blk.{}.", i);
    add_norm(table, prefix + "ln1", block.norm1, width);
    add_linear(table, prefix + "attn_qkv", block.qkv, 3 * width, width);
    add_linear(table, prefix + "attn_out", block.proj, width, width);
    add_norm(table, prefix + "ln2", block.norm2, width);
    add_linear(table, prefix + "ffn_up", block.fc1, c.intermediate_size, width);
    add_linear(table, prefix + "ffn_down", block.fc2, width, c.intermediate_size);
  }
  add_norm(table, "post_ln", w.merger_norm, width);
  add_linear(table, "mm.0", w.merger_fc1, merged, merged);
  add_linear(table, "mm.2", w.merger_fc2, c.out_hidden_size, merged);
}

}  // namespace

std::vector<Binding> gguf_bindings(const ModelConfig& config, ModelWeights& weights) {
  const TextConfig& text = config.text;
  size_layers(config, weights);
  Table table;
  append(table, "", {matrix("token_embd.weight", weights.embed_tokens, text.vocab_size, text.hidden_size)});
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    LayerWeights& layer = weights.layers[i];
    const std::string prefix = fmt::format("blk.{}.", i);
    append(table, prefix, mlp_and_norms(text, layer));
    if (auto* mixer = std::get_if<DeltaNetWeights>(&layer.mixer)) {
      append(table, prefix, delta_net(text, *mixer));
    } else {
      append(table, prefix, attention(text, std::get<AttentionWeights>(layer.mixer)));
    }
  }
  append(table, "",
         {vector("output_norm.weight", weights.norm, text.hidden_size),
          matrix("output.weight", weights.lm_head, text.vocab_size, text.hidden_size)});
  if (config.vision) add_vision_tower(table, *config.vision, weights.vision);
  const std::size_t first_head = table.size();
  add_head_bindings(config.head, weights.head, table);
  for (std::size_t i = first_head; i < table.size(); ++i) {
    table[i].storage = Storage::bf16;
    if (table[i].shape.empty()) table[i].shape = {1};  // GGUF has no scalars
  }
  return table;
}

}  // namespace clef
