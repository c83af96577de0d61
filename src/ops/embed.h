#pragma once

#include <string_view>
#include <tuple>

#include "ops/io.h"

namespace clef {

// y[t] = table[ids[t]], widened.      Source: nn.Embedding; no scaling in Qwen3.5.
struct Embed {
  static constexpr std::string_view name = "embed";
  Out y;     // [tokens, n]  f32
  In ids;    // [1, tokens]  i32, each below table.rows
  In table;  // [vocab, n]   a weight
  auto tensors() const { return std::tie(y, ids, table); }
};
bool valid(const Embed& op);
void define(const Embed& op);

// y[t] = table[ids[t]], of what a product made of every token.
struct TakeRows {
  static constexpr std::string_view name = "take_rows";
  Out y;     // [tokens, n]  activation
  In ids;    // [1, tokens]  i32, each below table.rows
  In table;  // [vocab, n]   as y
  auto tensors() const { return std::tie(y, ids, table); }
};
bool valid(const TakeRows& op);
void define(const TakeRows& op);

}  // namespace clef
