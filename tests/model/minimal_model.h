// A model of a few KB that the whole opening path accepts: one layer of each kind, every width as small as it may be.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>
#include <string>

#include "model/convert.h"
#include "model/synthetic_snapshot.h"
#include "support/scratch.h"
#include "text/json.h"

namespace clef::test {

inline constexpr const char* kMinimalConfig = R"({"model_type": "qwen3_5", "text_config": {
  "vocab_size": 260, "hidden_size": 2, "intermediate_size": 2, "num_hidden_layers": 2,
  "layer_types": ["linear_attention", "full_attention"], "num_attention_heads": 1, "num_key_value_heads": 1,
  "head_dim": 256, "hidden_act": "silu", "rms_norm_eps": 1e-06, "tie_word_embeddings": false, "attention_bias": false,
  "linear_conv_kernel_dim": 1, "linear_key_head_dim": 128, "linear_value_head_dim": 16, "linear_num_key_heads": 1,
  "linear_num_value_heads": 1, "rope_parameters": {"rope_type": "default", "rope_theta": 10000000,
  "partial_rotary_factor": 0.25, "mrope_section": [11, 11, 10], "mrope_interleaved": true}}})";

inline constexpr const char* kMinimalHeadConfig =
    R"({"hidden_size": 2, "width": 1, "routing_layers": 1, "layers": 1, "heads": 1, "feedforward": 1})";

// The 256 byte symbols, one merge and one added token.
inline std::string minimal_tokenizer() {
  std::string vocab;
  std::int64_t id = 0, shifted = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const auto code = static_cast<unsigned>(is_itself ? byte : static_cast<int>(shifted++));
    std::string symbol;
    if (code < 0x80) {
      symbol = static_cast<char>(code);
    } else {
      symbol += static_cast<char>(0xc0 | code >> 6);
      symbol += static_cast<char>(0x80 | (code & 0x3f));
    }
    append_json_string(vocab, symbol);
    vocab += fmt::format(": {}, ", id++);
  }
  return R"({"added_tokens": [{"id": 257, "content": "<|end|>", "single_word": false, "lstrip": false,
    "rstrip": false, "normalized": false, "special": true}], "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
    "use_regex": false}]}, "post_processor": null, "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE",
    "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
    "fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": {)" +
         vocab + R"("ab": 256}, "merges": [["a", "b"]]}})";
}

inline constexpr const char* kMinimalTokenizerConfig =
    R"({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|end|>", "pad_token": {"content": "<|end|>"}})";

// The snapshot, in SCRATCH/model.
inline std::filesystem::path write_minimal_snapshot(const ScratchFolder& scratch) {
  scratch.write("config.json", kMinimalConfig);
  scratch.write("joint_head_config.json", kMinimalHeadConfig);
  scratch.write("tokenizer.json", minimal_tokenizer());
  scratch.write("tokenizer_config.json", kMinimalTokenizerConfig);
  const auto folder = scratch.path() / "model";
  const auto made = synthesize({.config_folder = scratch.path(),
                                .tokenizer_folder = {},
                                .out_folder = folder,
                                .num_layers = {},
                                .vision = true,
                                .shard_bytes = 6000},
                               {});
  if (!made) throw std::runtime_error(made.error().message);
  return folder;
}

// The same as one file.
inline std::filesystem::path write_minimal_gguf(const ScratchFolder& scratch) {
  const auto path = scratch.path() / "model.gguf";
  const auto made = convert(write_minimal_snapshot(scratch), path, {});
  if (!made) throw std::runtime_error(made.error().message);
  return path;
}

}  // namespace clef::test
