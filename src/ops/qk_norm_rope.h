#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include "ops/io.h"

namespace clef {

// Per head: RMS norm with gain, then rotation of the first 2 * pairs features, feature i with feature i + pairs. A
// token has three positions, and the pairs take turns: pair i turns with the height where i % 3 is 1, with the width
// where it is 2, each as long as it has pairs left, else with the time. The query's projection carries each head's
// output gate behind its query; the gate is left where it is. Source: Qwen3_5Attention.forward, apply_rotary_pos_emb,
// Qwen3_5TextRotaryEmbedding.apply_interleaved_mrope.
struct QkNormRope {
  static constexpr std::string_view name = "qk_norm_rope";
  Out q;         // [tokens, q_heads * head_dim]      activation
  Out k;         // [tokens, kv_heads * head_dim]     activation; may be k_raw itself
  In q_gate;     // [tokens, q_heads * 2 * head_dim]  activation: per head the query, then the gate
  In k_raw;      // [tokens, kv_heads * head_dim]     activation
  In q_gain;     // [1, head_dim]  f32, 1 + w
  In k_gain;     // [1, head_dim]  f32, 1 + w
  In cos, sin;   // [positions, pairs]  f32
  In positions;  // [tokens, 3]  i32: rows of cos and sin for time, height and width, each below `positions`
  std::int64_t height_pairs = 0, width_pairs = 0;
  float eps = 0;
  auto tensors() const { return std::tie(q, k, q_gate, k_raw, q_gain, k_gain, cos, sin, positions); }
};
enum class RopeAxis : std::uint8_t { time, height, width };
constexpr RopeAxis rope_axis(std::int64_t pair, std::int64_t height_pairs, std::int64_t width_pairs) {
  if (pair % 3 == 1 && pair < 3 * height_pairs) return RopeAxis::height;
  return pair % 3 == 2 && pair < 3 * width_pairs ? RopeAxis::width : RopeAxis::time;
}
bool valid(const QkNormRope& op);
void define(const QkNormRope& op);

}  // namespace clef
