#include "model/config.h"

#include <gtest/gtest.h>

#include "minimal_model.h"
#include "support/golden.h"

namespace clef {
namespace {

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("nothing to replace");
  return text.replace(at, from.size(), to);
}

ModelConfig tiny(const std::string& name) {
  const auto file = [&](const char* part) { return test::read_file(test::golden_path(name + "/" + part)); };
  const std::string config = file("config.json"), head = file("joint_head_config.json");
  const std::string processor = file("processor_config.json");
  auto parsed = parse_config(
      name,
      {.config = config, .head_config = head, .processor = processor, .image_processor = {}, .video_processor = {}});
  if (!parsed) throw std::runtime_error(parsed.error().message);
  return std::move(parsed).value();
}

TEST(Config, ReadsClefTiny27) {
  const ModelConfig config = tiny("clef-tiny27");
  const TextConfig& text = config.text;
  EXPECT_EQ(text.hidden_size, 320);
  EXPECT_EQ(text.intermediate_size, 544);
  EXPECT_EQ(text.vocab_size, 4096);
  using enum LayerType;
  EXPECT_EQ(text.layer_types,
            (std::vector{linear_attention, full_attention, linear_attention, linear_attention, full_attention}));
  EXPECT_EQ(text.num_attention_heads, 6);
  EXPECT_EQ(text.num_key_value_heads, 1);
  EXPECT_EQ(text.linear_num_key_heads, 2);
  EXPECT_EQ(text.linear_num_value_heads, 6);
  EXPECT_EQ(text.conv_width(), 1280);
  EXPECT_EQ(text.rms_norm_eps, 1e-6F);
  EXPECT_EQ(text.rope_theta, 1e7F);
  EXPECT_EQ(text.rotary_dim, 64);
  EXPECT_EQ(config.head, (HeadConfig{320, 96, 1, 4, 6, 160}));
  ASSERT_TRUE(config.vision);
  EXPECT_EQ(config.vision->depth, 2);
  EXPECT_EQ(config.vision->image_token_id, 4012);
  EXPECT_EQ(config.vision->image_min_pixels, 65536);
  EXPECT_EQ(config.vision->image_max_pixels, 16777216);
}

TEST(Config, ReadsTheProcessorsFromEitherLayout) {
  const auto file = [](const char* part) {
    return test::read_file(test::golden_path(std::string("clef-tiny/") + part));
  };
  const std::string config = file("config.json"), head = file("joint_head_config.json");
  const std::string image = file("preprocessor_config.json"), video = file("video_preprocessor_config.json");
  const auto parsed = parse_config(
      "clef-tiny",
      {.config = config, .head_config = head, .processor = {}, .image_processor = image, .video_processor = video});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, tiny("clef-tiny"));
}

TEST(Config, LayerTypesFollowTheIntervalWhenTheyAreNotListed) {
  const std::string config =
      replaced(replaced(test::kMinimalConfig, R"("num_hidden_layers": 2)", R"("num_hidden_layers": 8)"),
               R"("layer_types": ["linear_attention", "full_attention"],)", "");
  const auto parsed = parse_config("m", {.config = config,
                                         .head_config = test::kMinimalHeadConfig,
                                         .processor = {},
                                         .image_processor = {},
                                         .video_processor = {}});
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->text.num_layers(), 8);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(parsed->text.layer_types[i] == LayerType::full_attention, i % 4 == 3) << i;
  }
}

TEST(Config, RefusesWhatTheEngineDoesNotServeAndSaysWhere) {
  struct Change {
    const char *from, *to, *message;
  };
  const Change changes[] = {
      {R"("model_type": "qwen3_5")", R"("model_type": "qwen3_omni_moe")",
       "config.json: model_type: expected \"qwen3_5\""},
      {R"("hidden_size": 2,)", R"("hidden_size": 0,)",
       "config.json: text_config.hidden_size: expected an integer from 1 to 16777216, got 0"},
      {R"("hidden_size": 2,)", R"("hidden_size": "2",)", "config.json: text_config.hidden_size: expected an integer"},
      {R"("hidden_size": 2,)", "",
       "config.json: text_config.hidden_size: expected an integer from 1 to 16777216, got nothing"},
      {R"("hidden_size": 2,)", R"("hidden_size": 3,)", "model: the head's hidden_size 2 differs from the backbone's 3"},
      {R"("num_hidden_layers": 2)", R"("num_hidden_layers": 3)",
       "config.json: text_config.layer_types: expected 3 names"},
      {R"("num_hidden_layers": 2)", R"("num_hidden_layers": 129)",
       "config.json: text_config.num_hidden_layers: expected an integer from 1 to 128"},
      {R"(["linear_attention",)", R"(["sliding_attention",)", "not \"sliding_attention\""},
      {R"("hidden_act": "silu")", R"("hidden_act": "gelu")",
       "config.json: text_config.hidden_act: expected \"silu\", got \"gelu\""},
      {R"("attention_bias": false)", R"("attention_bias": true)",
       "config.json: text_config.attention_bias: expected false, got true"},
      {R"("attention_bias": false)", R"("attn_output_gate": false)",
       "config.json: text_config.attn_output_gate: expected true, got false"},
      {R"("attention_bias": false)", R"("mlp_only_layers": [1])",
       "config.json: text_config.mlp_only_layers: expected an empty list"},
      {R"("tie_word_embeddings": false)", R"("tie_word_embeddings": true)",
       "config.json: text_config.tie_word_embeddings: expected false"},
      {R"("rope_type": "default")", R"("rope_type": "yarn")",
       "config.json: text_config.rope_parameters.rope_type: expected \"default\""},
      {R"("mrope_interleaved": true)", R"("mrope_interleaved": false)",
       "text_config.rope_parameters.mrope_interleaved: expected true"},
      {"[11, 11, 10]", "[16, 8, 8]", "model: unsupported M-RoPE layout"},
      {R"("head_dim": 256)", R"("head_dim": 128)", "model: unsupported shape (hd=128 n_rot=32 dk=128)"},
      {R"("partial_rotary_factor": 0.25)", R"("partial_rotary_factor": 0.5)",
       "model: unsupported shape (hd=256 n_rot=128 dk=128)"},
      {R"("linear_value_head_dim": 16)", R"("linear_value_head_dim": 24)",
       "linear_value_head_dim 24 is no multiple of 16"},
      {R"("linear_num_key_heads": 1)", R"("linear_num_key_heads": 2)",
       "1 linear value heads do not divide among 2 key heads"},
      {R"("linear_conv_kernel_dim": 1)", R"("linear_conv_kernel_dim": 9)", "linear_conv_kernel_dim 9, at most 8"},
      {R"("num_key_value_heads": 1)", R"("num_key_value_heads": 16777216)",
       "1 attention heads do not divide among 16777216"},
      {R"("num_attention_heads": 1)", R"("num_attention_heads": 16777216)", "a projection of"},
      {R"("rms_norm_eps": 1e-06)", R"("rms_norm_eps": 0)", "rms_norm_eps 0"},
      {R"("text_config")", R"("text")", "config.json: text_config: expected an object, got nothing"},
  };
  for (const Change& change : changes) {
    const std::string config = replaced(test::kMinimalConfig, change.from, change.to);
    const auto parsed = parse_config("m", {.config = config,
                                           .head_config = test::kMinimalHeadConfig,
                                           .processor = {},
                                           .image_processor = {},
                                           .video_processor = {}});
    ASSERT_FALSE(parsed) << change.to;
    EXPECT_NE(parsed.error().message.find(change.message), std::string::npos)
        << change.to << ": " << parsed.error().message;
  }
}

TEST(Config, RefusesOtherHeadsTowersAndProcessors) {
  const auto file = [](const char* part) {
    return test::read_file(test::golden_path(std::string("clef-tiny/") + part));
  };
  struct Change {
    const char *file, *from, *to, *message;
  };
  const Change changes[] = {
      {"joint_head_config.json", R"("heads": 4)", R"("heads": 3)", "width 128 does not divide among 3 heads"},
      {"joint_head_config.json", R"("layers": 2, "h)", R"("layers": 15, "h)", "2 + 15 layers, at most 16"},
      {"joint_head_config.json", R"("width": 128)", R"("width": null)",
       "joint_head_config.json: width: expected an integer"},
      {"config.json", "qwen3_5_vision", "qwen3_vl",
       "config.json: vision_config.model_type: expected \"qwen3_5_vision\""},
      {"config.json", "gelu_pytorch_tanh", "gelu", "vision_config.hidden_act: expected \"gelu_pytorch_tanh\""},
      {"config.json", R"("num_heads": 2)", R"("num_heads": 3)", "a head must have 72 features"},
      {"config.json", R"("num_position_embeddings": 2304)", R"("num_position_embeddings": 2305)",
       "a table of 2305 positions is no square"},
      {"config.json", R"("out_hidden_size": 256)", R"("out_hidden_size": 512)", "out_hidden_size 512 differs"},
      {"config.json", R"("image_token_id": 4012)", R"("image_token_id": 4096)",
       "model: vision token ids must be below the vocabulary size 4096"},
      {"config.json", R"("image_token_id": 4012)", R"("image_token_id": 4013)",
       "model: vision token ids must be distinct (image 4013 start 4009 end 4010 video 4013)"},
      {"config.json", R"("image_token_id": 4012)", R"("image_token": 4012)",
       "config.json: image_token_id: expected an integer"},
      {"config.json", R"("depth": 3)", R"("depth": 3, "deepstack_visual_indexes": [1])",
       "vision_config.deepstack_visual_indexes: expected an empty list"},
      {"processor_config.json", "Qwen2VLImageProcessor", "ViTImageProcessor",
       "image_processor_type: expected \"Qwen2VLImageProcessor\""},
      {"processor_config.json", R"("resample": 3)", R"("resample": 2)", "resample: expected 3 (bicubic), got 2"},
      {"processor_config.json", "0.00392156862745098", "0.0039", "rescale_factor: expected 1/255"},
      {"processor_config.json", R"("do_normalize": true)", R"("do_normalize": false)", "do_normalize: expected true"},
      {"processor_config.json", R"("patch_size": 16)", R"("patch_size": 14)",
       "patch_size: expected 16, as in config.json, got 14"},
      {"processor_config.json", R"("longest_edge": 16777216)", R"("longest_edge": 1)",
       "size.longest_edge: expected an integer from 65536"},
  };
  for (const Change& change : changes) {
    const auto part = [&](const char* name) {
      return std::string_view(name) == change.file ? replaced(file(name), change.from, change.to) : file(name);
    };
    const std::string config = part("config.json"), head = part("joint_head_config.json"),
                      processor = part("processor_config.json");
    const auto parsed = parse_config(
        "m",
        {.config = config, .head_config = head, .processor = processor, .image_processor = {}, .video_processor = {}});
    ASSERT_FALSE(parsed) << change.to;
    EXPECT_NE(parsed.error().message.find(change.message), std::string::npos)
        << change.to << ": " << parsed.error().message;
  }
  const std::string config = file("config.json"), head = file("joint_head_config.json");
  const auto parsed = parse_config(
      "m", {.config = config, .head_config = head, .processor = {}, .image_processor = {}, .video_processor = {}});
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().message, "processor_config.json: missing, and no preprocessor_config.json either");
}

}  // namespace
}  // namespace clef
