// Everything that can be wrong with a model on disk, and the words for it.
#include <gtest/gtest.h>

#include <fstream>

#include "minimal_model.h"
#include "model/gguf.h"
#include "model/gguf_model.h"
#include "model/model_file.h"
#include "model/safetensors.h"
#include "support/golden.h"

namespace clef {
namespace {

namespace fs = std::filesystem;

std::string error_of(const fs::path& path) {
  const auto model = open_model(path);
  return model ? "" : model.error().message;
}

void expect_error(const fs::path& path, std::string_view part) {
  const std::string message = error_of(path);
  EXPECT_NE(message.find(part), std::string::npos) << "expected ..." << part << "..., got: " << message;
}

void edit(const fs::path& path, std::string_view from, std::string_view to) {
  std::string text = test::read_file(path);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  std::ofstream(path, std::ios::binary) << text;
}

class MinimalModel : public testing::Test {
 protected:
  test::ScratchFolder scratch_;
  fs::path folder_ = test::write_minimal_snapshot(scratch_);
};

TEST_F(MinimalModel, OpensAsFolderAndAsGguf) {
  EXPECT_EQ(error_of(folder_), "");
  const fs::path gguf = scratch_.path() / "model.gguf";
  ASSERT_TRUE(convert(folder_, gguf, {}));
  const auto model = open_model(gguf);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(model->config.vision);
  EXPECT_EQ(model->config.name, "model");
  EXPECT_EQ(model->tokenizer.tokens.size(), 258U);
  EXPECT_EQ(model->tokenizer.added_tokens, (std::vector<AddedToken>{{257, "<|end|>", true}}));
}

TEST_F(MinimalModel, MissingPartsAreNamed) {
  ASSERT_TRUE(fs::exists(folder_ / "model-00002-of-00002.safetensors"));
  for (const char* name : {"config.json", "joint_head_config.json", "tokenizer.json", "joint_head.safetensors",
                           "model-00002-of-00002.safetensors"}) {
    fs::rename(folder_ / name, folder_ / "aside");
    expect_error(folder_, name);
    fs::rename(folder_ / "aside", folder_ / name);
  }
  EXPECT_EQ(error_of(folder_), "");
  expect_error(scratch_.path() / "nowhere", "no such file or folder: expected a snapshot folder or a GGUF");
}

TEST_F(MinimalModel, OtherFilesAreNotModels) {
  expect_error(scratch_.write("notes.txt", "hello"), "not a model: expected a snapshot folder or a GGUF made by");
  expect_error(scratch_.write("empty.gguf", ""), "not a model");
  expect_error(folder_ / "joint_head.safetensors", "give the folder, not one of its files");
  expect_error("/dev/null", "not a regular file");
}

TEST_F(MinimalModel, TensorsMustBeTheOnesTheConfigAsksFor) {
  const fs::path config = folder_ / "config.json";
  edit(config, R"("linear_num_value_heads": 1)", R"("linear_num_value_heads": 2)");
  expect_error(folder_,
               "model: tensor model.language_model.layers.0.linear_attn.in_proj_qkv.weight has type BF16 shape "
               "[272, 2], expected BF16, F16 or F32 [288, 2]");
  edit(config, R"("linear_num_value_heads": 2)", R"("linear_num_value_heads": 1)");
  edit(config, R"(["linear_attention", "full_attention"])", R"(["linear_attention", "linear_attention"])");
  expect_error(folder_, "model: missing tensor model.language_model.layers.1.linear_attn.in_proj_qkv.weight");
  edit(config, R"(["linear_attention", "linear_attention"])", R"(["linear_attention", "full_attention"])");
  edit(config, R"("num_hidden_layers": 2)", R"("num_hidden_layers": 1)");
  edit(config, R"(["linear_attention", "full_attention"])", R"(["linear_attention"])");
  expect_error(folder_, "model: unexpected tensor model.language_model.layers.1.");
}

TEST_F(MinimalModel, IgnoresMultiTokenPredictionAlone) {
  // A shard of its own, with one more tensor, listed in the index.
  const auto add = [&](const std::string& name) {
    const SafetensorsEntry entry[] = {{name, DType::bf16, {2}}};
    std::ofstream(folder_ / "more.safetensors", std::ios::binary) << safetensors_header(entry) << "abcd";
    edit(folder_ / "model.safetensors.index.json", "\"weight_map\": {",
         "\"weight_map\": {\"" + name + "\": \"more.safetensors\",");
  };
  add("mtp.fc.weight");
  EXPECT_EQ(error_of(folder_), "");
  edit(folder_ / "model.safetensors.index.json", "mtp.fc.weight", "model.visual.extra");
  add("model.visual.extra");
  expect_error(folder_, "more.safetensors: model: unexpected tensor model.visual.extra");
}

TEST_F(MinimalModel, TheTokenizerMustFitTheEmbedding) {
  edit(folder_ / "tokenizer.json", R"("id": 257)", R"("id": 9257)");
  expect_error(folder_, "the tokenizer has 9258 tokens, the embedding only 260 rows");
}

TEST_F(MinimalModel, WrongMetadataOfAGgufIsNamed) {
  const fs::path path = scratch_.path() / "model.gguf";
  ASSERT_TRUE(convert(folder_, path, {}));
  const std::string good = test::read_file(path);
  // Same lengths, so that everything else stays in its place.
  const auto with = [&](std::string_view key, std::size_t skip, std::string_view bytes) {
    std::string text = good;
    const std::size_t at = text.find(key);
    EXPECT_NE(at, std::string::npos) << key;
    text.replace(at + key.size() + skip, bytes.size(), bytes);
    std::ofstream(path, std::ios::binary) << text;
  };
  struct Change {
    std::string_view key;
    std::size_t skip;  // from the key's end to the bytes
    std::string_view bytes, message;
  };
  using namespace std::string_view_literals;
  const Change changes[] = {
      {"general.architecture", 12, "qwen", "model: not a clef GGUF (architecture qwen)"},
      {"clef.block_coun", 0, "x", "model: missing or invalid clef.block_count"},
      {"clef.block_count", 4, "\x03"sv, "model: bad layer_types: 2 of them for 3 layers"},
      {"clef.block_count", 4, "\0"sv,
       "model: missing or invalid clef.block_count: expected an integer from 1 to 128, got 0"},
      {"clef.block_count", 0, "\x06"sv, "model: missing or invalid clef.block_count"},  // a float
      {"clef.layer_types", 16, "\x02"sv, "model: layer 0 has unknown type 2"},
      {"clef.attention.key_length", 4, "\x80\0"sv,
       "model: clef.attention.value_length differs from clef.attention.key_length"},
      {"clef.rope.mrope_section", 16, "\x0a"sv, "model: unsupported M-RoPE layout"},
      {"clef.ssm.k_head_dim", 4, "\x40"sv, "model: unsupported shape (hd=256 n_rot=64 dk=64)"},
      {"clef.embedding_length", 4, "\x03"sv,
       "model: tensor token_embd.weight has type BF16 shape [260, 2], expected BF16 [260, 3]"},
      {"clef.feed_forward_length", 4, "\x03"sv,
       "model: tensor blk.0.ffn_gate_up.weight has type BF16 shape [4, 2], expected BF16 [6, 2]"},
      {"clef.vocab_size", 4, "\x01\x01"sv, "the tokenizer has 258 tokens, the embedding only 257 rows"},
      {"tokenizer.ggml.model", 12, "bert", "tokenizer: expected byte-level BPE (gpt2)"},
      {"tokenizer.ggml.pre", 12, "qwen99", "tokenizer: unsupported pre-tokenizer \"qwen99\""},
      {"clef.tokenizer.normalizer", 12, R"({"type":"NFD"})", "tokenizer: normalizer is not NFC"},
      {R"("Regex":")", 4, "x", "tokenizer: split regex differs from the implemented ones"},
      {"clef.tokenizer.split_pattern", 12, "qwen3", "tokenizer: unknown clef.tokenizer.split_pattern \"qwen3\""},
      {"tokenizer.ggml.token_type", 16, "\x09"sv, "tokenizer: token 0 has unknown type 9"},
      {"tokenizer.ggml.merges", 24, "aab", "tokenizer: merge 0 is not two tokens with a space between"},
      {"blk.1.attn_output.weight", 0, "\x05"sv, "bad tensor table: tensor blk.1.attn_output.weight has 5 dimensions"},
      {"blk.0.ssm_a", 12, "\x1e"sv, "model: tensor blk.0.ssm_a has type BF16 shape [1], expected F32 [1]"},
      {"head.residual_gat", 0, "x", "model: missing tensor head.residual_gate"},
      {"head.residual_gate", 12, "\x01"sv,
       "model: tensor head.residual_gate has type F16 shape [1], expected BF16 [1]"},
  };
  for (const Change& change : changes) {
    with(change.key, change.skip, change.bytes);
    SCOPED_TRACE(change.key);
    expect_error(path, change.message);
  }
  with("general.name", 12, "model");  // nothing changed: the edits themselves do not break the file
  EXPECT_EQ(error_of(path), "");
}

// Files of converters that did not record the pattern hold Clef or Clef-Flash, whose class means Qwen2's.
TEST_F(MinimalModel, AGgufWithoutASplitPatternUsesQwen2s) {
  const fs::path path = scratch_.path() / "model.gguf";
  ASSERT_TRUE(convert(folder_, path, {}));
  edit(path, "clef.tokenizer.split_pattern", "clef.tokenizer.split_comment");
  const auto tokenizer = open_tokenizer(path);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->pattern, SplitPattern::qwen2);
}

TEST(OpenModel, WrongVisionMetadataIsNamed) {
  const std::string good = test::read_file(test::test_data_path("clef-tiny.gguf"));
  const auto config_error = [&](std::string_view from, std::string_view to) -> std::string {
    std::string text = good;
    const std::size_t at = text.find(from);
    if (at == std::string::npos) return "nothing to replace";
    text.replace(at, to.size(), to);
    const auto model = parse_gguf_model("m", std::as_bytes(std::span(text)));
    return model ? "" : model.error().message;
  };
  EXPECT_EQ(config_error("clef.vision.image_processor", "clef.vision.image_procedure"),
            "m: model: incomplete clef.vision.* keys (no image_processor)");
  EXPECT_NE(config_error(R"("resample":3)", R"("resample":2)")
                .find("model: clef.vision.image_processor describes preprocessing this engine does not implement"),
            std::string::npos);
  EXPECT_EQ(config_error(R"("shortest_edge":65536)", R"("shortest_edge":65535)"),
            "m: model: clef.vision.image.min_pixels is 65536, but clef.vision.image_processor says 65535");
  EXPECT_EQ(config_error("v.blk.0.ln1.bias", "v.blk.0.ln1.bits"), "m: model: missing tensor v.blk.0.ln1.bias");
  EXPECT_EQ(config_error("clef.vision.block_count", "clef.vision.block_cnt__"),
            "m: model: unexpected tensor v.blk.0.attn_out.bias");
}

}  // namespace
}  // namespace clef
