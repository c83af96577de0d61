#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include "ops/io.h"

namespace clef {

// Keys are taken in blocks of this many, counted from the sequence's own start; another size would change the bits.
inline constexpr std::int64_t kAttentionBlock = 64;

// Causal softmax(q k^T / sqrt(head_dim)) v inside each sequence, times sigmoid(gate). Causal by place in the sequence.
// Query head h reads key head h * kv_heads / q_heads (rounded down). The first `prefix` tokens of every sequence have
// keys and values and no query, and no sequence is shorter: the new tokens are the others.
// Source: Qwen3_5Attention.forward.
struct Attention {
  static constexpr std::string_view name = "attention";
  Out y;          // [new tokens, q_heads * head_dim]      activation
  In q;           // [new tokens, q_heads * head_dim]      activation
  In k, v;        // [tokens, kv_heads * head_dim]         activation, rows equally far apart
  In q_gate;      // [new tokens, q_heads * 2 * head_dim]  activation: the gate lies behind each head's query
  In cu_seqlens;  // [1, sequences + 1]  i32, first token of each sequence, then the token count
  std::int64_t head_dim = 0;
  std::int64_t prefix = 0;
  auto tensors() const { return std::tie(y, q, k, v, q_gate, cu_seqlens); }
};
bool valid(const Attention& op);
void define(const Attention& op);

// softmax(q k^T / sqrt(head_dim)) v without a mask: the queries of segment s see all keys of segment s, no others.
// Source: nn.MultiheadAttention in the head; Qwen3_5VisionAttention.
struct CrossAttention {
  static constexpr std::string_view name = "cross_attention";
  Out y;          // [queries, heads * head_dim]  activation
  In q;           // [queries, heads * head_dim]  activation
  In k, v;        // [keys, heads * head_dim]     activation, rows equally far apart
  In cu_queries;  // [1, segments + 1]  i32
  In cu_keys;     // [1, segments + 1]  i32
  std::int64_t head_dim = 0;
  auto tensors() const { return std::tie(y, q, k, v, cu_queries, cu_keys); }
};
bool valid(const CrossAttention& op);
void define(const CrossAttention& op);

}  // namespace clef
