// Gathering rows: means over spans, and rows added by index.
#pragma once

#include <string_view>
#include <tuple>

#include "ops/io.h"

namespace clef {

// y[i] = mean of the rows first_i ... first_i + count_i - 1 of x, summed in ascending order.
struct SpanMean {
  static constexpr std::string_view name = "span_mean";
  Out y;     // [spans, n]  f32
  In x;      // [rows, n]   f32
  In spans;  // [spans, 2]  i32: first, count (at least 1)
  auto tensors() const { return std::tie(y, x, spans); }
};
bool valid(const SpanMean& op);
void define(const SpanMean& op);

// y[i] = mean of table[ids[p]] for p in span i: an option's words as the output embedding has them.
struct EmbedMean {
  static constexpr std::string_view name = "embed_mean";
  Out y;     // [spans, n]   f32
  In ids;    // [1, tokens]  i32
  In spans;  // [spans, 2]   i32: first, count (at least 1)
  In table;  // [vocab, n]   a weight
  auto tensors() const { return std::tie(y, ids, spans, table); }
};
bool valid(const EmbedMean& op);
void define(const EmbedMean& op);

// y[i] += x[index[i]], or x[i] without an index
struct AddRows {
  static constexpr std::string_view name = "add_rows";
  InOut y;   // [rows, n]   f32
  In x;      // [m, n]      f32, or a weight
  In index;  // [1, rows]   i32, each below m; or none
  auto tensors() const { return std::tie(y, x, index); }
};
bool valid(const AddRows& op);
void define(const AddRows& op);

}  // namespace clef
