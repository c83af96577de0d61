// A GGUF as llama.cpp's converter writes it gives the bits of the snapshot it was made from. The converter's rules are
// stated here once more, the other way round: from the snapshot's tensors to the file's.
#include "model/llama_gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>

#include "base/bf16.h"
#include "model/model_file.h"
#include "model/safetensors.h"
#include "model/snapshot.h"
#include "support/golden.h"
#include "support/scratch.h"

namespace clef::test {
namespace {

struct Stored {
  std::string name;
  DType dtype;
  Shape shape;
  std::vector<std::byte> bytes;
};

std::vector<std::byte> f32_bytes(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<float> floats(const FileTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, tensor.bytes.data() + 2 * i, 2);
    values[i] = bf16_to_f32(half);
  }
  return values;
}

// What conversion/qwen.py and conversion/clef.py do.
class Converter {
 public:
  Converter(const ModelFile& model, const TensorTable& tensors)
      : c_(model.config.text), head_(model.config.head), tokenizer_(model.tokenizer), tensors_(tensors) {}

  std::vector<Stored> tensors(DType matrices) {
    out_.clear();
    matrices_ = matrices;
    matrix("token_embd.weight", at("model.language_model.embed_tokens.weight"));
    matrix("output.weight", at("lm_head.weight"));
    vector("output_norm.weight", at("model.language_model.norm.weight"), 1);
    for (std::size_t i = 0; i < c_.layer_types.size(); ++i) layer(i);
    for (const auto& [name, tensor] : tensors_) {
      if (name.starts_with("head.")) head(name.substr(5), tensor);
    }
    std::vector<float> scales;
    for (const char* name : {"prior_logit_scale", "joint_logit_scale"}) {
      scales.push_back(static_cast<float>(std::exp(std::min<double>(scalar(name), std::log(100.0)))));
    }
    scales.push_back(static_cast<float>(1 / (1 + std::exp(-scalar("residual_gate")))));
    out_.push_back({"decision.scales", DType::f32, {3}, f32_bytes(scales)});
    return out_;
  }

  void metadata(GgufBuilder& builder) const {
    const auto u32 = [&](const char* key, std::int64_t value) {
      builder.add_u32(key, static_cast<std::uint32_t>(value));
    };
    builder.add_string("general.architecture", "clef");
    builder.add_string("general.name", "Clef Tiny");
    u32("clef.block_count", c_.num_layers());
    u32("clef.embedding_length", c_.hidden_size);
    u32("clef.feed_forward_length", c_.intermediate_size);
    u32("clef.attention.head_count", c_.num_attention_heads);
    u32("clef.attention.head_count_kv", c_.num_key_value_heads);
    u32("clef.attention.key_length", c_.head_dim);
    u32("clef.attention.value_length", c_.head_dim);
    u32("clef.rope.dimension_count", c_.rotary_dim);
    const std::vector<std::int32_t> sections = {11, 11, 10, 0};
    builder.add_i32s("clef.rope.dimension_sections", sections);
    builder.add_f32("clef.rope.freq_base", c_.rope_theta);
    builder.add_f32("clef.attention.layer_norm_rms_epsilon", c_.rms_norm_eps);
    u32("clef.ssm.conv_kernel", c_.linear_conv_kernel_dim);
    u32("clef.ssm.state_size", c_.linear_key_head_dim);
    u32("clef.ssm.group_count", c_.linear_num_key_heads);
    u32("clef.ssm.time_step_rank", c_.linear_num_value_heads);
    u32("clef.ssm.inner_size", c_.value_width());
    u32("clef.full_attention_interval", 4);
    builder.add_string("clef.decision.type", "clef");
    u32("clef.decision.routing_block_count", head_.routing_layers);
    u32("clef.decision.block_count", head_.layers);
    u32("clef.decision.head_count", head_.heads);
    builder.add_f32("clef.attention.layer_norm_epsilon", 1e-5F);
    builder.add_string("tokenizer.ggml.model", "gpt2");
    builder.add_string("tokenizer.ggml.pre", "qwen35");
    std::vector<std::string> tokens = tokenizer_.tokens, merges;
    std::vector<std::int32_t> types(tokens.size(), 1);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (!tokens[i].empty()) continue;
      tokens[i] = fmt::format("[PAD{}]", i);
      types[i] = 5;
    }
    for (const auto& added : tokenizer_.added_tokens) types[static_cast<std::size_t>(added.id)] = added.special ? 3 : 4;
    for (const auto& [left, right] : tokenizer_.merges) merges.push_back(left + " " + right);
    builder.add_strings("tokenizer.ggml.tokens", tokens);
    builder.add_i32s("tokenizer.ggml.token_type", types);
    builder.add_strings("tokenizer.ggml.merges", merges);
  }

 private:
  const FileTensor& at(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) throw std::runtime_error("no tensor " + name);
    return found->second;
  }
  double scalar(const char* name) const { return floats(at(fmt::format("head.{}", name))).front(); }

  void matrix(const std::string& name, const FileTensor& tensor) { matrix(name, tensor.shape, floats(tensor)); }
  void matrix(const std::string& name, const Shape& shape, const std::vector<float>& values) {
    if (matrices_ == DType::f32) {
      out_.push_back({name, DType::f32, shape, f32_bytes(values)});
      return;
    }
    std::vector<std::byte> bytes(values.size() * 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t half = f32_to_bf16(values[i]);
      std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
    out_.push_back({name, DType::bf16, shape, std::move(bytes)});
  }
  void vector(const std::string& name, const FileTensor& tensor, float add = 0) {
    std::vector<float> values = floats(tensor);
    for (float& value : values) value += add;
    out_.push_back({name, DType::f32, tensor.shape, f32_bytes(values)});
  }

  // Value heads from [key head][group] to [group][key head], `unit` numbers each, in rows of `row` numbers of which the
  // first `skip` rows stay.
  std::vector<float> tiled(const std::vector<float>& values, std::int64_t skip, std::int64_t unit,
                           std::int64_t row) const {
    std::vector<float> out = values;
    const std::int64_t groups = c_.linear_num_value_heads / c_.linear_num_key_heads;
    for (std::int64_t key = 0; key < c_.linear_num_key_heads; ++key) {
      for (std::int64_t group = 0; group < groups; ++group) {
        const std::int64_t from = key * groups + group, to = group * c_.linear_num_key_heads + key;
        for (std::int64_t i = 0; i < unit * row; ++i) {
          out[static_cast<std::size_t>(skip * row + to * unit * row + i)] =
              values[static_cast<std::size_t>(skip * row + from * unit * row + i)];
        }
      }
    }
    return out;
  }

  void layer(std::size_t index) {
    const std::string from = fmt::format("model.language_model.layers.{}.", index), to = fmt::format("blk.{}.", index);
    vector(to + "attn_norm.weight", at(from + "input_layernorm.weight"), 1);
    vector(to + "post_attention_norm.weight", at(from + "post_attention_layernorm.weight"), 1);
    matrix(to + "ffn_gate.weight", at(from + "mlp.gate_proj.weight"));
    matrix(to + "ffn_up.weight", at(from + "mlp.up_proj.weight"));
    matrix(to + "ffn_down.weight", at(from + "mlp.down_proj.weight"));
    if (c_.layer_types[index] == LayerType::full_attention) {
      matrix(to + "attn_q.weight", at(from + "self_attn.q_proj.weight"));
      matrix(to + "attn_k.weight", at(from + "self_attn.k_proj.weight"));
      matrix(to + "attn_v.weight", at(from + "self_attn.v_proj.weight"));
      matrix(to + "attn_output.weight", at(from + "self_attn.o_proj.weight"));
      vector(to + "attn_q_norm.weight", at(from + "self_attn.q_norm.weight"), 1);
      vector(to + "attn_k_norm.weight", at(from + "self_attn.k_norm.weight"), 1);
      return;
    }
    const std::string mixer = from + "linear_attn.";
    const std::int64_t keys = 2 * c_.key_width(), dim = c_.linear_value_head_dim, hidden = c_.hidden_size;
    const std::int64_t taps = c_.linear_conv_kernel_dim;
    const auto ordered = [&](const char* name, const char* source, std::int64_t skip, std::int64_t unit) {
      const FileTensor& tensor = at(mixer + source);
      matrix(to + name, tensor.shape, tiled(floats(tensor), skip, unit, hidden));
    };
    ordered("attn_qkv.weight", "in_proj_qkv.weight", keys, dim);
    ordered("attn_gate.weight", "in_proj_z.weight", 0, dim);
    ordered("ssm_beta.weight", "in_proj_b.weight", 0, 1);
    ordered("ssm_alpha.weight", "in_proj_a.weight", 0, 1);
    out_.push_back({to + "ssm_conv1d.weight",
                    DType::f32,
                    {c_.conv_width(), taps},
                    f32_bytes(tiled(floats(at(mixer + "conv1d.weight")), keys, dim, taps))});
    std::vector<float> a = floats(at(mixer + "A_log"));
    for (float& value : a) value = -std::exp(value);  // in float32, as torch does
    out_.push_back({to + "ssm_a", DType::f32, {c_.linear_num_value_heads}, f32_bytes(tiled(a, 0, 1, 1))});
    out_.push_back({to + "ssm_dt.bias",
                    DType::f32,
                    {c_.linear_num_value_heads},
                    f32_bytes(tiled(floats(at(mixer + "dt_bias")), 0, 1, 1))});
    vector(to + "ssm_norm.weight", at(mixer + "norm.weight"));
    const FileTensor& out = at(mixer + "out_proj.weight");
    std::vector<float> values = floats(out);
    for (std::int64_t row = 0; row < hidden; ++row) {
      const auto start = values.begin() + row * c_.value_width();
      const std::vector<float> columns = tiled({start, start + c_.value_width()}, 0, dim, 1);
      std::copy(columns.begin(), columns.end(), start);
    }
    matrix(to + "ssm_out.weight", out.shape, values);
  }

  void head(std::string name, const FileTensor& tensor) {
    if (tensor.shape.empty()) return;  // the scales
    const auto replace = [&name](std::string_view from, std::string_view to) {
      const std::size_t found = name.find(from);
      if (found != std::string::npos) name.replace(found, from.size(), to);
    };
    if (name.starts_with("layers.")) {
      const std::size_t dot = name.find('.', 7);
      name = fmt::format("dec.blk.{}{}", std::stoll(name.substr(7, dot - 7)) + head_.routing_layers, name.substr(dot));
      replace("norm1", "attn_norm");
      replace("norm2", "cross_attn_norm");
      replace("norm3", "ffn_norm");
      replace("self_attn.", "attn_");
      replace("multihead_attn.", "cross_attn_");
      replace("linear1", "ffn_up");
      replace("linear2", "ffn_down");
    } else if (name.starts_with("evidence_layers.")) {
      replace("evidence_layers.", "dec.blk.");
      replace("query_norm", "cross_attn_norm");
      replace("memory_norm", "cross_attn_norm_kv");
      replace("feedforward_norm", "ffn_norm");
      replace("attention.", "cross_attn_");
      replace("feedforward.0", "ffn_up");
      replace("feedforward.3", "ffn_down");
    } else if (name.ends_with("_projection.weight")) {
      name = "decision.proj_" + name.substr(0, name.find("_projection")) + ".weight";
    } else if (name == "type_embedding.weight") {
      name = "token_types.weight";
    } else {
      name = "decision." + name;
      replace("residual_scorer.0", "scorer");
      replace("residual_scorer.3", "scorer_out");
    }
    replace("out_proj", "o");
    const std::vector<float> values = floats(tensor);
    const std::size_t packed = name.find("in_proj_");
    if (packed == std::string::npos) {
      Shape shape = tensor.shape;
      if (shape.size() == 2 && shape[0] == 1) shape.erase(shape.begin());
      if (tensor.shape.size() == 2) {
        matrix(name, shape, values);
      } else {
        out_.push_back({name, DType::f32, shape, f32_bytes(values)});
      }
      return;
    }
    for (std::size_t part = 0; part < 3; ++part) {
      std::string one = name;
      one.replace(packed, 8, fmt::format("{}.", "qkv"[part]));
      Shape shape = tensor.shape;
      shape[0] /= 3;
      const auto count = static_cast<std::ptrdiff_t>(values.size() / 3),
                 first = static_cast<std::ptrdiff_t>(part) * count;
      const std::vector<float> third(values.begin() + first, values.begin() + first + count);
      if (shape.size() == 2) {
        matrix(one, shape, third);
      } else {
        out_.push_back({one, DType::f32, shape, f32_bytes(third)});
      }
    }
  }

  const TextConfig& c_;
  const HeadConfig& head_;
  const TokenizerDefinition& tokenizer_;
  const TensorTable& tensors_;
  DType matrices_ = DType::bf16;
  std::vector<Stored> out_;
};

// Three value heads to a key head, so that an order that is wrong shows.
class LlamaGguf : public testing::Test {
 protected:
  LlamaGguf() : snapshot_(std::move(open_snapshot(test_data_path("clef-tiny27"))).value()) {
    mapped_ = std::make_unique<MappedTensors>(std::move(map_snapshot_tensors(test_data_path("clef-tiny27"))).value());
  }

  std::filesystem::path write(DType matrices, const std::function<void(std::vector<Stored>&)>& edit = {}) {
    Converter converter(snapshot_, mapped_->tensors);
    std::vector<Stored> tensors = converter.tensors(matrices);
    if (edit) edit(tensors);
    GgufBuilder builder;
    converter.metadata(builder);
    for (const Stored& tensor : tensors) builder.add_tensor(tensor.name, tensor.dtype, tensor.shape);
    const GgufBuilder::Layout layout = builder.layout();
    std::string file = layout.header;
    file.resize(static_cast<std::size_t>(layout.file_bytes));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::memcpy(file.data() + layout.offsets[i], tensors[i].bytes.data(), tensors[i].bytes.size());
    }
    return scratch_.write("llama.gguf", file);
  }

  ScratchFolder scratch_;
  ModelFile snapshot_;
  std::unique_ptr<MappedTensors> mapped_;
};

void expect_same(const MappedMatrix& a, const MappedMatrix& b, const std::string& what) {
  EXPECT_EQ(a.dtype, b.dtype) << what;
  EXPECT_EQ(a.rows, b.rows) << what;
  EXPECT_EQ(a.cols, b.cols) << what;
  ASSERT_EQ(a.bytes.size(), b.bytes.size()) << what;
  EXPECT_EQ(std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()), 0) << what;
}
void expect_same(const NormWeights& a, const NormWeights& b, const std::string& what) {
  EXPECT_EQ(a.gain, b.gain) << what;
  EXPECT_EQ(a.bias, b.bias) << what;
}
void expect_same(const LinearWeights& a, const LinearWeights& b, const std::string& what) {
  expect_same(a.weight, b.weight, what);
  EXPECT_EQ(a.bias, b.bias) << what;
}
void expect_same(const MultiheadWeights& a, const MultiheadWeights& b, const std::string& what) {
  expect_same(a.q, b.q, what + " q");
  expect_same(a.k, b.k, what + " k");
  expect_same(a.v, b.v, what + " v");
  expect_same(a.out, b.out, what + " out");
}

void expect_same(const LayerWeights& a, const LayerWeights& b, const std::string& what) {
  EXPECT_EQ(a.input_norm, b.input_norm) << what;
  EXPECT_EQ(a.post_attention_norm, b.post_attention_norm) << what;
  expect_same(a.mlp.gate, b.mlp.gate, what + " gate");
  expect_same(a.mlp.up, b.mlp.up, what + " up");
  expect_same(a.mlp.down, b.mlp.down, what + " down");
  ASSERT_EQ(a.mixer.index(), b.mixer.index()) << what;
  if (const auto* left = std::get_if<DeltaNetWeights>(&a.mixer)) {
    const auto& right = std::get<DeltaNetWeights>(b.mixer);
    expect_same(left->in_qkv, right.in_qkv, what + " in_qkv");
    expect_same(left->in_z, right.in_z, what + " in_z");
    expect_same(left->in_b, right.in_b, what + " in_b");
    expect_same(left->in_a, right.in_a, what + " in_a");
    expect_same(left->out, right.out, what + " out");
    EXPECT_EQ(left->conv, right.conv) << what;
    EXPECT_EQ(left->neg_exp_a_log, right.neg_exp_a_log) << what;
    EXPECT_EQ(left->dt_bias, right.dt_bias) << what;
    EXPECT_EQ(left->norm, right.norm) << what;
  } else {
    const auto& one = std::get<AttentionWeights>(a.mixer);
    const auto& other = std::get<AttentionWeights>(b.mixer);
    expect_same(one.q_gate, other.q_gate, what + " q_gate");
    expect_same(one.k, other.k, what + " k");
    expect_same(one.v, other.v, what + " v");
    expect_same(one.out, other.out, what + " out");
    EXPECT_EQ(one.q_norm, other.q_norm) << what;
    EXPECT_EQ(one.k_norm, other.k_norm) << what;
  }
}

void expect_same(const HeadWeights& a, const HeadWeights& b) {
  expect_same(a.hidden_norm, b.hidden_norm, "hidden_norm");
  expect_same(a.option_summary_norm, b.option_summary_norm, "option_summary_norm");
  expect_same(a.field_norm, b.field_norm, "field_norm");
  expect_same(a.option_norm, b.option_norm, "option_norm");
  expect_same(a.memory_projection, b.memory_projection, "memory_projection");
  expect_same(a.question_projection, b.question_projection, "question_projection");
  expect_same(a.option_question_projection, b.option_question_projection, "option_question_projection");
  expect_same(a.global_projection, b.global_projection, "global_projection");
  expect_same(a.option_context_projection, b.option_context_projection, "option_context_projection");
  expect_same(a.option_lexical_projection, b.option_lexical_projection, "option_lexical_projection");
  expect_same(a.type_embedding, b.type_embedding, "type_embedding");
  for (std::size_t i = 0; i < a.evidence_layers.size(); ++i) {
    const auto &left = a.evidence_layers[i], &right = b.evidence_layers[i];
    expect_same(left.query_norm, right.query_norm, "query_norm");
    expect_same(left.memory_norm, right.memory_norm, "memory_norm");
    expect_same(left.feedforward_norm, right.feedforward_norm, "feedforward_norm");
    expect_same(left.attention, right.attention, "attention");
    expect_same(left.up, right.up, "up");
    expect_same(left.down, right.down, "down");
  }
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    const auto &left = a.layers[i], &right = b.layers[i];
    expect_same(left.norm1, right.norm1, "norm1");
    expect_same(left.norm2, right.norm2, "norm2");
    expect_same(left.norm3, right.norm3, "norm3");
    expect_same(left.self_attn, right.self_attn, "self_attn");
    expect_same(left.multihead_attn, right.multihead_attn, "multihead_attn");
    expect_same(left.linear1, right.linear1, "linear1");
    expect_same(left.linear2, right.linear2, "linear2");
  }
  expect_same(a.residual_scorer_0, b.residual_scorer_0, "residual_scorer_0");
  expect_same(a.residual_scorer_3, b.residual_scorer_3, "residual_scorer_3");
  EXPECT_EQ(a.residual_gate, b.residual_gate);
  EXPECT_EQ(a.joint_logit_scale, b.joint_logit_scale);
}

TEST_F(LlamaGguf, GivesTheBitsOfItsSnapshot) {
  for (const DType matrices : {DType::bf16, DType::f32}) {
    const auto opened = open_model(write(matrices));
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(opened->config.text, snapshot_.config.text);
    EXPECT_EQ(opened->config.head, snapshot_.config.head);
    EXPECT_FALSE(opened->config.vision);
    EXPECT_EQ(opened->config.name, "Clef Tiny");
    EXPECT_EQ(opened->tokenizer.tokens, snapshot_.tokenizer.tokens);
    EXPECT_EQ(opened->tokenizer.merges, snapshot_.tokenizer.merges);
    EXPECT_EQ(opened->tokenizer.pattern, SplitPattern::qwen2);
    expect_same(opened->weights.embed_tokens, snapshot_.weights.embed_tokens, "embed_tokens");
    expect_same(opened->weights.lm_head, snapshot_.weights.lm_head, "lm_head");
    EXPECT_EQ(opened->weights.norm, snapshot_.weights.norm);
    for (std::size_t i = 0; i < snapshot_.weights.layers.size(); ++i) {
      expect_same(opened->weights.layers[i], snapshot_.weights.layers[i], fmt::format("layer {}", i));
    }
    expect_same(opened->weights.head, snapshot_.weights.head);
    // The release caps the scale at 100: of a larger one the cap is all that is left.
    const double prior = snapshot_.weights.head.prior_logit_scale;
    EXPECT_NEAR(opened->weights.head.prior_logit_scale, std::min(prior, std::log(100.0)), 1e-6);
  }
}

TEST_F(LlamaGguf, ValuesFinerThanTheReleasesAreRefused) {
  const auto path = write(DType::f32, [](std::vector<Stored>& tensors) {
    for (Stored& tensor : tensors) {
      if (tensor.name != "blk.1.ffn_up.weight") continue;
      const float finer = 1.0F / 3;
      std::memcpy(tensor.bytes.data() + 400, &finer, sizeof finer);
    }
  });
  const auto opened = open_model(path);
  ASSERT_FALSE(opened);
  EXPECT_NE(
      opened.error().message.find("tensor blk.1.ffn_up.weight of type F32 holds 0.33333334, which is no BF16 value"),
      std::string::npos)
      << opened.error().message;
}

TEST_F(LlamaGguf, WhatIsMissingOrWrongIsNamed) {
  const auto message = [&](const std::string& name, bool remove) {
    const auto opened = open_model(write(DType::bf16, [&](std::vector<Stored>& tensors) {
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i].name != name) continue;
        if (remove) {
          tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          std::swap(tensors[i].shape.front(), tensors[i].shape.back());
        }
        return;
      }
      FAIL() << "no tensor " << name;
    }));
    return opened ? "opened" : opened.error().message;
  };
  for (const char* name : {"token_embd.weight", "output_norm.weight", "blk.0.ssm_out.weight", "decision.scales",
                           "decision.proj_memory.weight", "dec.blk.0.ffn_up.weight", "dec.blk.1.cross_attn_q.bias"}) {
    EXPECT_NE(message(name, true).find(fmt::format("model: missing tensor {}", name)), std::string::npos)
        << message(name, true);
  }
  for (const char* name :
       {"blk.0.attn_qkv.weight", "blk.0.ssm_out.weight", "blk.0.ssm_conv1d.weight", "blk.0.ffn_up.weight"}) {
    EXPECT_NE(message(name, false).find(fmt::format("model: tensor {} has type", name)), std::string::npos)
        << message(name, false);
  }
}

}  // namespace
}  // namespace clef::test
