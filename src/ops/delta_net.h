// Gated DeltaNet: the short convolution in front of it and the recurrence itself.
// Source: Qwen3_5GatedDeltaNet.forward; chunk form: arXiv 2412.06464.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>

#include "ops/io.h"

namespace clef {

// Tokens are taken in chunks of this many, counted from the sequence's own start; the reference's chunk.
inline constexpr std::int64_t kDeltaNetChunk = 64;

// Where sequences begin alike, the rows of their first tokens may be known from an earlier pass: `prefix` has them,
// once for all, and what a product made for this pass has the others, the new tokens, sequence after sequence. No
// sequence is shorter than its prefix.

// Causal depthwise convolution over each sequence, SiLU, then per head of head_dim features: q and k divided by
// sqrt(sum of squares + 1e-6). History before a sequence's start is zero.
struct ShortConv {
  static constexpr std::string_view name = "short_conv";
  Out q, k;                   // [tokens, key_heads * head_dim]      activation
  Out v;                      // [tokens, value_heads * value_dim]   activation
  In x;                       // [new tokens, q.cols + k.cols + v.cols]  activation: query, key and value channels
  In weight;                  // [taps, x.cols]  f32; tap taps-1 meets the current token
  In cu_seqlens;              // [1, sequences + 1]  i32, of all tokens
  std::int64_t head_dim = 0;  // of q and k
  In prefix = {};             // [n, x.cols]  activation: each sequence's first n tokens, which x lacks; or none
  auto tensors() const { return std::tie(q, k, v, x, weight, cu_seqlens, prefix); }
};
bool valid(const ShortConv& op);
void define(const ShortConv& op);

// Per value head, state S [head_dim, value_dim] from zero at each sequence's start:
//   g = neg_exp_a_log * softplus(a + dt_bias);  beta = sigmoid(b)
//   S = e^g S;  S += k (beta (v - S^T k))^T;  y = S^T q / sqrt(head_dim)
// Value head j reads key head j * key_heads / value_heads (rounded down).
struct DeltaNet {
  static constexpr std::string_view name = "delta_net";
  Out y;             // [new tokens, value_heads * value_dim]  activation
  In q, k;           // [tokens, key_heads * head_dim]     activation, of unit length
  In v;              // [tokens, value_heads * value_dim]  activation
  In b, a;           // [new tokens, value_heads]          f32, rows equally far apart
  In neg_exp_a_log;  // [1, value_heads]  f32
  In dt_bias;        // [1, value_heads]  f32
  In cu_seqlens;     // [1, sequences + 1]  i32, of all tokens
  std::int64_t head_dim = 0, value_dim = 0;
  // [n, value_heads]  f32, rows equally far apart: of each sequence's first n tokens, whose y nobody asks for; or none
  In prefix_b = {}, prefix_a = {};
  auto tensors() const { return std::tie(y, q, k, v, b, a, neg_exp_a_log, dt_bias, cu_seqlens, prefix_b, prefix_a); }
};
bool valid(const DeltaNet& op);
void define(const DeltaNet& op);

}  // namespace clef
