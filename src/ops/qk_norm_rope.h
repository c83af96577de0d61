#pragma once

#include <string_view>
#include <tuple>

#include "ops/io.h"

namespace clef {

// Per head: RMS norm with gain, then rotation of the first 2 * pairs features, feature i with feature i + pairs.
// The query's projection carries each head's output gate behind its query; the gate is left where it is.
// Source: Qwen3_5Attention.forward, apply_rotary_pos_emb.
struct QkNormRope {
  static constexpr std::string_view name = "qk_norm_rope";
  Out q;        // [tokens, q_heads * head_dim]      activation
  Out k;        // [tokens, kv_heads * head_dim]     activation; may be k_raw itself
  In q_gate;    // [tokens, q_heads * 2 * head_dim]  activation: per head the query, then the gate
  In k_raw;     // [tokens, kv_heads * head_dim]     activation
  In q_gain;    // [1, head_dim]  f32, 1 + w
  In k_gain;    // [1, head_dim]  f32, 1 + w
  In cos, sin;  // [tokens, pairs]  f32
  float eps = 0;
  auto tensors() const { return std::tie(q, k, q_gate, k_raw, q_gain, k_gain, cos, sin); }
};
bool valid(const QkNormRope& op);
void define(const QkNormRope& op);

}  // namespace clef
