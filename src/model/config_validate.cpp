// What any model must hold before a kernel sees it, whichever file it came from.
#include <cmath>

#include "model/config.h"

namespace clef {

namespace {

// Of a width or a size; with it no product of two can overflow, nor ask for absurd memory before a tensor is checked.
constexpr std::int64_t kMaxWidth = std::int64_t{1} << 24;

bool is_size(std::int64_t value) { return value >= 1 && value <= kMaxWidth; }

Status validate_text(const TextConfig& c) {
  const auto unsupported = [&](const std::string& reason) {
    return Error{Errc::unsupported, fmt::format("model: unsupported shape (hd={} n_rot={} dk={}): {}", c.head_dim,
                                                c.rotary_dim, c.linear_key_head_dim, reason)};
  };
  for (const std::int64_t size : {c.hidden_size, c.intermediate_size, c.vocab_size, c.num_attention_heads,
                                  c.num_key_value_heads, c.linear_num_key_heads, c.linear_num_value_heads,
                                  c.linear_key_head_dim, c.linear_value_head_dim, c.linear_conv_kernel_dim}) {
    if (!is_size(size)) return unsupported(fmt::format("a size of {}", size));
  }
  if (c.layer_types.empty() || c.layer_types.size() > 128) {
    return unsupported(fmt::format("{} layers, expected 1 to 128", c.layer_types.size()));
  }
  if (c.head_dim != 256) return unsupported("head_dim must be 256");
  if (c.rotary_dim != 64) return unsupported("64 features of a head must be rotated");
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    return unsupported(fmt::format("{} attention heads do not divide among {} key/value heads", c.num_attention_heads,
                                   c.num_key_value_heads));
  }
  if (c.linear_key_head_dim != 128) return unsupported("linear_key_head_dim must be 128");
  if (c.linear_value_head_dim % 16 != 0) {
    return unsupported(fmt::format("linear_value_head_dim {} is no multiple of 16", c.linear_value_head_dim));
  }
  if (c.linear_num_value_heads % c.linear_num_key_heads != 0) {
    return unsupported(fmt::format("{} linear value heads do not divide among {} key heads", c.linear_num_value_heads,
                                   c.linear_num_key_heads));
  }
  if (c.linear_conv_kernel_dim > 8) {
    return unsupported(fmt::format("linear_conv_kernel_dim {}, at most 8", c.linear_conv_kernel_dim));
  }
  for (const std::int64_t width : {2 * c.query_width() + 2 * c.kv_width(), c.conv_width() + c.value_width()}) {
    if (!is_size(width)) return unsupported(fmt::format("a projection of {} rows", width));
  }
  if (!(c.rms_norm_eps > 0 && c.rms_norm_eps < 1)) return unsupported(fmt::format("rms_norm_eps {}", c.rms_norm_eps));
  if (!(c.rope_theta > 1 && std::isfinite(c.rope_theta))) {
    return unsupported(fmt::format("rope_theta {}", c.rope_theta));
  }
  if (c.mrope_section != std::vector<std::int64_t>{11, 11, 10}) {
    return Error{Errc::unsupported, "model: unsupported M-RoPE layout: expected sections of 11, 11 and 10"};
  }
  return {};
}

Status validate_head(const HeadConfig& c, const TextConfig& text) {
  for (const std::int64_t size : {c.hidden_size, c.width, c.routing_layers, c.layers, c.heads, c.feedforward}) {
    if (!is_size(size)) return Error{Errc::unsupported, fmt::format("model: unsupported head: a size of {}", size)};
  }
  if (c.hidden_size != text.hidden_size) {
    return Error{Errc::bad_model, fmt::format("model: the head's hidden_size {} differs from the backbone's {}",
                                              c.hidden_size, text.hidden_size)};
  }
  if (c.routing_layers + c.layers > 16) {
    return Error{Errc::unsupported,
                 fmt::format("model: unsupported head: {} + {} layers, at most 16 in all", c.routing_layers, c.layers)};
  }
  if (c.width % c.heads != 0) {
    return Error{Errc::unsupported,
                 fmt::format("model: unsupported head: width {} does not divide among {} heads", c.width, c.heads)};
  }
  return {};
}

Status validate_vision(const VisionConfig& c, const TextConfig& text) {
  const auto unsupported = [&](const std::string& reason) {
    return Error{Errc::unsupported,
                 fmt::format("model: unsupported vision shape (width={} heads={} patch={} merge={}): {}", c.hidden_size,
                             c.num_heads, c.patch_size, c.spatial_merge_size, reason)};
  };
  for (const std::int64_t size :
       {c.depth, c.hidden_size, c.intermediate_size, c.num_heads, c.num_position_embeddings, c.out_hidden_size}) {
    if (!is_size(size)) return unsupported(fmt::format("a size of {}", size));
  }
  if (c.depth > 128) return unsupported(fmt::format("{} blocks, at most 128", c.depth));
  if (c.hidden_size != c.num_heads * 72) return unsupported("a head must have 72 features");
  if (c.in_channels != 3) return unsupported(fmt::format("{} channels, expected 3", c.in_channels));
  if (c.patch_size != 16 || c.temporal_patch_size != 2 || c.spatial_merge_size != 2) {
    return unsupported("expected patches of 16, 2 frames and merges of 2");
  }
  if (!is_size(c.merge_width())) return unsupported(fmt::format("a merger of {} inputs", c.merge_width()));
  const auto side = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(c.num_position_embeddings))));
  if (side < 2 || side * side != c.num_position_embeddings) {
    return unsupported(fmt::format("a table of {} positions is no square", c.num_position_embeddings));
  }
  if (c.out_hidden_size != text.hidden_size) {
    return unsupported(fmt::format("out_hidden_size {} differs from the backbone's hidden_size {}", c.out_hidden_size,
                                   text.hidden_size));
  }
  const std::int32_t ids[] = {c.image_token_id, c.vision_start_token_id, c.vision_end_token_id, c.video_token_id};
  for (const std::int32_t id : ids) {
    if (id < 1 || id >= text.vocab_size) {
      return Error{
          Errc::bad_model,
          fmt::format("model: vision token ids must be below the vocabulary size {} and not 0", text.vocab_size)};
    }
  }
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < i; ++j) {
      if (ids[i] != ids[j]) continue;
      return Error{Errc::bad_model,
                   fmt::format("model: vision token ids must be distinct (image {} start {} end {} video {})", ids[0],
                               ids[1], ids[2], ids[3])};
    }
  }
  return {};
}

}  // namespace

Status validate(const ModelConfig& config) {
  TRY(validate_text(config.text));
  TRY(validate_head(config.head, config.text));
  if (config.vision) TRY(validate_vision(*config.vision, config.text));
  return {};
}

}  // namespace clef
