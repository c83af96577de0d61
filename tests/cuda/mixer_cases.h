// Attention, convolution and Gated DeltaNet on small ragged shapes, for ops_test.cpp.
#pragma once

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

#include "op_mirror.h"

namespace clef::test {

struct OpCase {
  std::string name;
  MakeOp make;
  bool has_f16 = true;  // false: the op has no activations but f32
};
inline std::ostream& operator<<(std::ostream& out, const OpCase& c) { return out << c.name; }

inline Tensor unit_heads(OpMaker& m, std::int64_t tokens, std::int64_t heads, std::int64_t head_dim) {
  const Tensor t = m.random(tokens, heads * head_dim);
  for (std::int64_t r = 0; r < tokens; ++r) {
    for (std::int64_t h = 0; h < heads; ++h) {
      float* x = t.row<float>(r) + h * head_dim;
      float squares = 0;
      for (std::int64_t c = 0; c < head_dim; ++c) squares += x[c] * x[c];
      for (std::int64_t c = 0; c < head_dim; ++c) x[c] /= std::sqrt(squares);
    }
  }
  return m.as_activation(t);
}

inline void add_mixers(std::vector<OpCase>& cases) {
  cases.push_back({"attention", [](OpMaker& m) -> Op {
                     const std::int64_t tokens = 1 + 64 + 65 + 150;
                     return Attention{.y = m.empty_activation(tokens, 6 * 256),
                                      .q = m.random_activation(tokens, 6 * 256, 2),
                                      .k = m.random_activation(tokens, 2 * 256, 2),
                                      .v = m.random_activation(tokens, 2 * 256),
                                      .q_gate = m.random_activation(tokens, 12 * 256),
                                      .cu_seqlens = m.ints({0, 1, 65, 130, 280}),
                                      .head_dim = 256};
                   }});
  cases.push_back({"cross_attention of segments", [](OpMaker& m) -> Op {
                     const Tensor qkv = m.random_activation(300, 6 * 72, 3), cu = m.ints({0, 4, 64, 300});
                     return CrossAttention{.y = m.empty_activation(300, 2 * 72),
                                           .q = qkv.col_range(0, 144),
                                           .k = qkv.col_range(144, 144),
                                           .v = qkv.col_range(288, 144),
                                           .cu_queries = cu,
                                           .cu_keys = cu,
                                           .head_dim = 72};
                   }});
  for (const std::int64_t d : {16, 64}) {
    cases.push_back({"cross_attention of other queries, heads of " + std::to_string(d),
                     [d](OpMaker& m) -> Op {
                       return CrossAttention{.y = m.empty(70, 2 * d),
                                             .q = m.random(70, 2 * d, 3),
                                             .k = m.random(2200, 2 * d, 3),
                                             .v = m.random(2200, 2 * d),
                                             .cu_queries = m.ints({0, 2, 70}),
                                             .cu_keys = m.ints({0, 65, 2200}),
                                             .head_dim = d};
                     },
                     false});
  }
  struct Keys {
    std::string name;
    std::vector<std::int32_t> ends;
  };
  // With one part of keys a segment there is nothing to merge; with more keys in all, for some segments.
  for (const Keys& keys : {Keys{"few keys", {0, 1, 33, 64}}, {"one part and several", {0, 64, 129, 400}}}) {
    for (const std::int64_t d : {64, 128, 256}) {
      cases.push_back({"cross_attention of " + keys.name + ", heads of " + std::to_string(d),
                       [d, ends = keys.ends](OpMaker& m) -> Op {
                         const Tensor kv = m.random(ends.back(), 4 * d, 3);
                         return CrossAttention{.y = m.empty(15, 2 * d),
                                               .q = m.random(15, 2 * d, 3),
                                               .k = kv.col_range(0, 2 * d),
                                               .v = kv.col_range(2 * d, 2 * d),
                                               .cu_queries = m.ints({0, 3, 5, 15}),
                                               .cu_keys = m.ints(ends),
                                               .head_dim = d};
                       },
                       false});
    }
  }
  cases.push_back({"short_conv", [](OpMaker& m) -> Op {
                     return ShortConv{.q = m.empty_activation(90, 2 * 128),
                                      .k = m.empty_activation(90, 2 * 128),
                                      .v = m.empty_activation(90, 6 * 128),
                                      .x = m.random_activation(90, 10 * 128, 2),
                                      .weight = m.random(4, 10 * 128),
                                      .cu_seqlens = m.ints({0, 1, 3, 90}),
                                      .head_dim = 128};
                   }});
  for (const std::int64_t value_heads : {2, 4, 6}) {
    cases.push_back({"delta_net of " + std::to_string(value_heads) + " value heads", [value_heads](OpMaker& m) -> Op {
                       const std::int64_t tokens = 1 + 63 + 64 + 65 + 200;
                       return DeltaNet{.y = m.empty_activation(tokens, value_heads * 128),
                                       .q = unit_heads(m, tokens, 2, 128),
                                       .k = unit_heads(m, tokens, 2, 128),
                                       .v = m.random_activation(tokens, value_heads * 128),
                                       .b = m.random(tokens, value_heads, 3),
                                       .a = m.random(tokens, value_heads, 4),
                                       .neg_exp_a_log = m.random(1, value_heads, 0.5F, -0.6F),
                                       .dt_bias = m.random(1, value_heads, 2, -2),
                                       .cu_seqlens = m.ints({0, 1, 64, 128, 193, 393}),
                                       .head_dim = 128,
                                       .value_dim = 128};
                     }});
  }
}

// The first tokens of every sequence are known: fewer than the taps reach, as many as a prompt's fixed text, and more
// than a chunk.
inline void add_known_prefixes(std::vector<OpCase>& cases) {
  for (const std::int64_t known : {2, 36, 70}) {
    const std::string suffix = " behind " + std::to_string(known) + " known tokens";
    const BehindKnownTokens sequences{known};
    const std::int64_t tokens = sequences.tokens(), fresh = sequences.fresh();
    cases.push_back({"attention" + suffix, [=](OpMaker& m) -> Op {
                       const Tensor kv = m.random_activation(tokens, 4 * 256, 2);
                       return Attention{.y = m.empty_activation(fresh, 6 * 256),
                                        .q = m.random_activation(fresh, 6 * 256, 2),
                                        .k = kv.col_range(0, 512),
                                        .v = kv.col_range(512, 512),
                                        .q_gate = m.random_activation(fresh, 12 * 256),
                                        .cu_seqlens = sequences.cu_seqlens(m),
                                        .head_dim = 256,
                                        .prefix = known};
                     }});
    cases.push_back({"short_conv" + suffix, [=](OpMaker& m) -> Op {
                       return ShortConv{.q = m.empty_activation(tokens, 2 * 128),
                                        .k = m.empty_activation(tokens, 2 * 128),
                                        .v = m.empty_activation(tokens, 6 * 128),
                                        .x = m.random_activation(fresh, 10 * 128, 2),
                                        .weight = m.random(4, 10 * 128),
                                        .cu_seqlens = sequences.cu_seqlens(m),
                                        .head_dim = 128,
                                        .prefix = m.random_activation(known, 10 * 128, 2)};
                     }});
    cases.push_back({"delta_net" + suffix, [=](OpMaker& m) -> Op {
                       const Tensor ba = m.random(fresh, 8, 3), known_ba = m.random(known, 8, 3);
                       return DeltaNet{.y = m.empty_activation(fresh, 4 * 128),
                                       .q = unit_heads(m, tokens, 2, 128),
                                       .k = unit_heads(m, tokens, 2, 128),
                                       .v = m.random_activation(tokens, 4 * 128),
                                       .b = ba.col_range(0, 4),
                                       .a = ba.col_range(4, 4),
                                       .neg_exp_a_log = m.random(1, 4, 0.5F, -0.6F),
                                       .dt_bias = m.random(1, 4, 2, -2),
                                       .cu_seqlens = sequences.cu_seqlens(m),
                                       .head_dim = 128,
                                       .value_dim = 128,
                                       .prefix_b = known_ba.col_range(0, 4),
                                       .prefix_a = known_ba.col_range(4, 4)};
                     }});
    for (const std::int64_t width : {512, 12}) {
      cases.push_back({"prepend_rows of " + std::to_string(width) + suffix, [=](OpMaker& m) -> Op {
                         return PrependRows{.y = m.empty_activation(tokens, width),
                                            .x = m.random_activation(fresh, 2 * width).col_range(width, width),
                                            .prefix = m.random_activation(known, width),
                                            .cu_seqlens = sequences.cu_seqlens(m)};
                       }});
    }
  }
  // From 2,049 tokens on the convolution has longer runs: of known tokens, of new ones, of both and of two sequences.
  for (const std::int64_t known : {0, 36}) {
    cases.push_back(
        {"short_conv of many tokens behind " + std::to_string(known) + " known ones", [=](OpMaker& m) -> Op {
           const std::int64_t tokens = 2333, fresh = tokens - 4 * known;
           return ShortConv{.q = m.empty_activation(tokens, 2 * 128),
                            .k = m.empty_activation(tokens, 2 * 128),
                            .v = m.empty_activation(tokens, 6 * 128),
                            .x = m.random_activation(fresh, 10 * 128, 2),
                            .weight = m.random(4, 10 * 128),
                            .cu_seqlens = m.ints({0, 37, 1000, 2100, 2333}),
                            .head_dim = 128,
                            .prefix = known > 0 ? m.random_activation(known, 10 * 128, 2) : Tensor()};
         }});
  }
  cases.push_back({"prepend_rows without any", [](OpMaker& m) -> Op {
                     return PrependRows{.y = m.empty_activation(9, 256),
                                        .x = m.random_activation(9, 256),
                                        .prefix = {},
                                        .cu_seqlens = m.ints({0, 9})};
                   }});
}

}  // namespace clef::test
