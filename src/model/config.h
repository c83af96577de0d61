// The numbers that define a Clef network, read from a snapshot's configs or a GGUF's metadata and checked once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace clef {

enum class LayerType : std::uint8_t { linear_attention = 0, full_attention = 1 };

struct TextConfig {
  std::int64_t hidden_size = 0, intermediate_size = 0, vocab_size = 0;
  std::vector<LayerType> layer_types;
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0;
  std::int64_t linear_num_key_heads = 0, linear_num_value_heads = 0;
  std::int64_t linear_key_head_dim = 0, linear_value_head_dim = 0, linear_conv_kernel_dim = 0;
  float rms_norm_eps = 0;
  float rope_theta = 0;
  std::int64_t rotary_dim = 0;              // features of a head that are rotated
  std::vector<std::int64_t> mrope_section;  // [11, 11, 10]

  std::int64_t num_layers() const { return static_cast<std::int64_t>(layer_types.size()); }
  std::int64_t key_width() const { return linear_num_key_heads * linear_key_head_dim; }        // KD
  std::int64_t value_width() const { return linear_num_value_heads * linear_value_head_dim; }  // VD
  std::int64_t conv_width() const { return 2 * key_width() + value_width(); }
  std::int64_t query_width() const { return num_attention_heads * head_dim; }
  std::int64_t kv_width() const { return num_key_value_heads * head_dim; }
  bool operator==(const TextConfig&) const = default;
};

struct HeadConfig {
  std::int64_t hidden_size = 0, width = 0, routing_layers = 0, layers = 0, heads = 0, feedforward = 0;
  bool operator==(const HeadConfig&) const = default;
};

// The tower, and the preprocessing it was trained with.
struct VisionConfig {
  std::int64_t depth = 0, hidden_size = 0, intermediate_size = 0, num_heads = 0;
  std::int64_t in_channels = 0, patch_size = 0, temporal_patch_size = 0, spatial_merge_size = 0;
  std::int64_t num_position_embeddings = 0;  // a square table
  std::int64_t out_hidden_size = 0;          // the backbone's hidden_size
  std::int32_t image_token_id = 0, video_token_id = 0, vision_start_token_id = 0, vision_end_token_id = 0;
  std::int64_t image_min_pixels = 0, image_max_pixels = 0;
  std::string image_processor;  // the processor's definition as sorted compact JSON
  std::string video_processor;  // the same for videos; empty when the files have none

  std::int64_t patch_width() const { return in_channels * temporal_patch_size * patch_size * patch_size; }
  std::int64_t merge_width() const { return hidden_size * spatial_merge_size * spatial_merge_size; }
  bool operator==(const VisionConfig&) const = default;
};

struct ModelConfig {
  std::string name;  // the snapshot folder's name, or the GGUF's general.name
  TextConfig text;
  std::optional<VisionConfig> vision;  // none: a model for text alone
  HeadConfig head;
  bool operator==(const ModelConfig&) const = default;
};

// What a snapshot says about itself, as text.
struct ConfigFiles {
  std::string_view config;           // config.json
  std::string_view head_config;      // joint_head_config.json
  std::string_view processor;        // processor_config.json; empty: the folder has none
  std::string_view image_processor;  // preprocessor_config.json, read when `processor` is empty
  std::string_view video_processor;  // video_preprocessor_config.json, likewise
};

// Errc::bad_model or unsupported names file, member, what was expected and what came.
Result<ModelConfig> parse_config(std::string_view name, const ConfigFiles& files);

// Takes an image processor's definition (JSON) into `vision`; refuses one that describes other preprocessing than ours
// or disagrees with the tower. `file` is for messages.
Status read_image_processor(std::string_view file, std::string_view json, VisionConfig& vision);

// What the kernels and the head need to hold; run on whatever a file said. Errc::bad_model or unsupported.
Status validate(const ModelConfig& config);

}  // namespace clef
