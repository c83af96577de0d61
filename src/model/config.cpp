#include "model/config.h"

#include <cmath>

#include "model/json_fields.h"
#include "text/json.h"

namespace clef {

namespace {

constexpr std::int64_t kMaxDimension = std::int64_t{1}
                                       << 24;  // of any one size; products of two stay far from overflow
constexpr std::int64_t kMaxLayers = 128;
constexpr double kDefaultRotaryFactor = 0.25;  // transformers' default for qwen3_5

// A member that must hold one value where it is present: the code has no other form of it.
Status require_text(const JsonFields& fields, std::string_view name, std::string_view value) {
  const std::string found = TRY(fields.string_or(name, value));
  if (found != value) return fields.unsupported(name, fmt::format("\"{}\"", value));
  return {};
}

Status require_flag(const JsonFields& fields, std::string_view name, bool value) {
  const bool found = TRY(fields.boolean_or(name, value));
  if (found != value) return fields.unsupported(name, value ? "true" : "false");
  return {};
}

Result<std::vector<LayerType>> parse_layer_types(const JsonFields& text) {
  const std::int64_t num_layers = TRY(text.integer("num_hidden_layers", 1, kMaxLayers));
  std::vector<LayerType> types;
  if (!text.has("layer_types")) {
    const std::int64_t interval = TRY(text.integer_or("full_attention_interval", 1, kMaxLayers, 4));
    for (std::int64_t i = 0; i < num_layers; ++i) {
      types.push_back((i + 1) % interval == 0 ? LayerType::full_attention : LayerType::linear_attention);
    }
    return types;
  }
  const std::vector<std::string> names = TRY(text.strings("layer_types"));
  if (static_cast<std::int64_t>(names.size()) != num_layers) {
    return text.error("layer_types", fmt::format("{} names, one a layer", num_layers));
  }
  for (const std::string& name : names) {
    if (name == "full_attention") {
      types.push_back(LayerType::full_attention);
    } else if (name == "linear_attention") {
      types.push_back(LayerType::linear_attention);
    } else {
      return text.error("layer_types", fmt::format("\"linear_attention\" or \"full_attention\" (not \"{}\")", name));
    }
  }
  return types;
}

Status parse_rope(const JsonFields& text, TextConfig& config) {
  // Some exports write the members of rope_parameters straight into text_config.
  const JsonFields rope = text.has("rope_parameters") ? TRY(text.object("rope_parameters")) : text;
  TRY(require_text(rope, "rope_type", "default"));
  TRY(require_flag(rope, "mrope_interleaved", true));
  config.rope_theta = static_cast<float>(TRY(rope.number("rope_theta")));
  const double factor = TRY(rope.number_or("partial_rotary_factor", kDefaultRotaryFactor));
  if (!(factor > 0 && factor <= 1)) return rope.error("partial_rotary_factor", "a number over 0, at most 1");
  config.rotary_dim = static_cast<std::int64_t>(static_cast<double>(config.head_dim) * factor);
  config.mrope_section = TRY(rope.integers("mrope_section"));
  return {};
}

Result<TextConfig> parse_text(const JsonFields& text) {
  TRY(require_text(text, "hidden_act", "silu"));
  TRY(require_flag(text, "attention_bias", false));
  TRY(require_flag(text, "attn_output_gate", true));
  TRY(require_flag(text, "tie_word_embeddings", false));
  if (text.has("mlp_only_layers") && !TRY(text.integers("mlp_only_layers")).empty()) {
    return text.unsupported("mlp_only_layers", "an empty list");
  }
  const auto size = [&](std::string_view name) { return text.integer(name, 1, kMaxDimension); };
  TextConfig config;
  config.hidden_size = TRY(size("hidden_size"));
  config.intermediate_size = TRY(size("intermediate_size"));
  config.vocab_size = TRY(size("vocab_size"));
  config.layer_types = TRY(parse_layer_types(text));
  config.num_attention_heads = TRY(size("num_attention_heads"));
  config.num_key_value_heads = TRY(size("num_key_value_heads"));
  config.head_dim = TRY(size("head_dim"));
  config.linear_num_key_heads = TRY(size("linear_num_key_heads"));
  config.linear_num_value_heads = TRY(size("linear_num_value_heads"));
  config.linear_key_head_dim = TRY(size("linear_key_head_dim"));
  config.linear_value_head_dim = TRY(size("linear_value_head_dim"));
  config.linear_conv_kernel_dim = TRY(size("linear_conv_kernel_dim"));
  config.rms_norm_eps = static_cast<float>(TRY(text.number("rms_norm_eps")));
  TRY(parse_rope(text, config));
  return config;
}

Result<HeadConfig> parse_head(std::string_view json) {
  const Json document = TRY(parse_json_file("joint_head_config.json", json));
  const JsonFields fields = TRY(JsonFields::of("joint_head_config.json", document));
  const auto size = [&](std::string_view name) { return fields.integer(name, 1, kMaxDimension); };
  HeadConfig config;
  config.hidden_size = TRY(size("hidden_size"));
  config.width = TRY(size("width"));
  config.routing_layers = TRY(size("routing_layers"));
  config.layers = TRY(size("layers"));
  config.heads = TRY(size("heads"));
  config.feedforward = TRY(size("feedforward"));
  return config;
}

Result<VisionConfig> parse_vision(const JsonFields& outer) {
  const JsonFields fields = TRY(outer.object("vision_config"));
  TRY(require_text(fields, "model_type", "qwen3_5_vision"));
  TRY(require_text(fields, "hidden_act", "gelu_pytorch_tanh"));
  if (fields.has("deepstack_visual_indexes") && !TRY(fields.integers("deepstack_visual_indexes")).empty()) {
    return fields.unsupported("deepstack_visual_indexes", "an empty list");
  }
  const auto size = [&](std::string_view name) { return fields.integer(name, 1, kMaxDimension); };
  VisionConfig config;
  config.depth = TRY(fields.integer("depth", 1, kMaxLayers));
  config.hidden_size = TRY(size("hidden_size"));
  config.intermediate_size = TRY(size("intermediate_size"));
  config.num_heads = TRY(size("num_heads"));
  config.in_channels = TRY(size("in_channels"));
  config.patch_size = TRY(size("patch_size"));
  config.temporal_patch_size = TRY(size("temporal_patch_size"));
  config.spatial_merge_size = TRY(size("spatial_merge_size"));
  config.num_position_embeddings = TRY(size("num_position_embeddings"));
  config.out_hidden_size = TRY(size("out_hidden_size"));
  const auto id = [&](std::string_view name) { return outer.integer(name, 0, kMaxDimension); };
  config.image_token_id = static_cast<std::int32_t>(TRY(id("image_token_id")));
  config.video_token_id = static_cast<std::int32_t>(TRY(id("video_token_id")));
  config.vision_start_token_id = static_cast<std::int32_t>(TRY(id("vision_start_token_id")));
  config.vision_end_token_id = static_cast<std::int32_t>(TRY(id("vision_end_token_id")));
  return config;
}

// Both processors, whichever of the two layouts the folder has.
Status parse_processors(const ConfigFiles& files, VisionConfig& vision) {
  if (files.processor.empty()) {
    if (files.image_processor.empty()) {
      return Error{Errc::bad_model, "processor_config.json: missing, and no preprocessor_config.json either"};
    }
    TRY(read_image_processor("preprocessor_config.json", files.image_processor, vision));
    if (!files.video_processor.empty()) {
      vision.video_processor = render(TRY(parse_json_file("video_preprocessor_config.json", files.video_processor)));
    }
    return {};
  }
  const Json document = TRY(parse_json_file("processor_config.json", files.processor));
  const JsonFields fields = TRY(JsonFields::of("processor_config.json", document));
  TRY(fields.object("image_processor"));
  TRY(read_image_processor("processor_config.json: image_processor", render(*document.find("image_processor")),
                           vision));
  if (const Json* video = document.find("video_processor")) vision.video_processor = render(*video);
  return {};
}

}  // namespace

Status read_image_processor(std::string_view file, std::string_view json, VisionConfig& vision) {
  const Json document = TRY(parse_json_file(file, json));
  const JsonFields fields = TRY(JsonFields::of(file, document));
  TRY(require_text(fields, "image_processor_type", "Qwen2VLImageProcessor"));
  for (const std::string_view name : {"do_convert_rgb", "do_resize", "do_rescale", "do_normalize"}) {
    if (!TRY(fields.boolean(name))) return fields.unsupported(name, "true");
  }
  constexpr std::int64_t kBicubic = 3;  // PIL's number
  if (TRY(fields.integer("resample", 0, 100)) != kBicubic) return fields.unsupported("resample", "3 (bicubic)");
  if (TRY(fields.number("rescale_factor")) != 1.0 / 255.0) return fields.unsupported("rescale_factor", "1/255");
  for (const std::string_view name : {"image_mean", "image_std"}) {
    if (TRY(fields.numbers(name)) != std::vector{0.5, 0.5, 0.5}) return fields.unsupported(name, "[0.5, 0.5, 0.5]");
  }
  const auto agrees = [&](std::string_view name, std::int64_t value) -> Status {
    if (TRY(fields.integer(name, 1, kMaxDimension)) != value) {
      return fields.error(name, fmt::format("{}, as in config.json", value));
    }
    return {};
  };
  TRY(agrees("patch_size", vision.patch_size));
  TRY(agrees("merge_size", vision.spatial_merge_size));
  TRY(agrees("temporal_patch_size", vision.temporal_patch_size));
  const JsonFields size = TRY(fields.object("size"));  // counts of pixels, despite their names
  constexpr std::int64_t kMaxPixels = (std::int64_t{1} << 31) - 1;
  vision.image_min_pixels = TRY(size.integer("shortest_edge", 1, kMaxPixels));
  vision.image_max_pixels = TRY(size.integer("longest_edge", vision.image_min_pixels, kMaxPixels));
  vision.image_processor = render(document);
  return {};
}

Result<ModelConfig> parse_config(std::string_view name, const ConfigFiles& files) {
  const Json document = TRY(parse_json_file("config.json", files.config));
  const JsonFields fields = TRY(JsonFields::of("config.json", document));
  const std::string type = TRY(fields.string("model_type"));
  if (type != "qwen3_5") {
    return fields.unsupported("model_type", "\"qwen3_5\" (Clef and Clef-Flash; other architectures are not served)");
  }
  TRY(require_flag(fields, "tie_word_embeddings", false));
  ModelConfig config;
  config.name = name;
  config.text = TRY(parse_text(TRY(fields.object("text_config"))));
  if (fields.has("vision_config")) {
    config.vision = TRY(parse_vision(fields));
    TRY(parse_processors(files, *config.vision));
  }
  config.head = TRY(parse_head(files.head_config));
  TRY(validate(config));
  return config;
}

}  // namespace clef
