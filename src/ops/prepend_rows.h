#pragma once

#include <string_view>
#include <tuple>

#include "ops/io.h"

namespace clef {

// The rows of each sequence's new tokens behind those of the first, known ones, which are the same for every sequence,
// none of which is shorter; without these, a copy.
struct PrependRows {
  static constexpr std::string_view name = "prepend_rows";
  Out y;          // [tokens, n]      activation
  In x;           // [new tokens, n]  activation, sequence after sequence
  In prefix;      // [m, n]           activation, or none
  In cu_seqlens;  // [1, sequences + 1]  i32, of all tokens
  auto tensors() const { return std::tie(y, x, prefix, cu_seqlens); }
};
bool valid(const PrependRows& op);
void define(const PrependRows& op);

}  // namespace clef
