// What only the vision tower does: patches from levels, interpolated positions, rotary over the whole head, and rows
// put in place.      Source: Qwen3_5VisionModel.
#pragma once

#include <string_view>
#include <tuple>

#include "ops/io.h"

namespace clef {

// y = p * W^T + bias with p = (level - 127.5) / 127.5, the processor's normalised pixel.
struct PatchEmbed {
  static constexpr std::string_view name = "patch_embed";
  Out y;      // [patches, n]  f32
  In levels;  // [patches, k]  u8
  In w;       // [n, k]        a weight
  In bias;    // [1, n]        f32
  auto tensors() const { return std::tie(y, levels, w, bias); }
};
bool valid(const PatchEmbed& op);
void define(const PatchEmbed& op);

// y[p] += sum over the taps j, in order, of weights[p][j] * table[taps[p][j]]
struct AddInterpolated {
  static constexpr std::string_view name = "add_interpolated";
  InOut y;     // [patches, n]  f32
  In table;    // [m, n]        a weight
  In taps;     // [patches, j]  i32, each below m
  In weights;  // [patches, j]  f32
  auto tensors() const { return std::tie(y, table, taps, weights); }
};
bool valid(const AddInterpolated& op);
void define(const AddInterpolated& op);

// Each head rotated over its whole width, feature i with feature i + head_dim / 2.
struct Rope {
  static constexpr std::string_view name = "rope";
  InOut x;      // [tokens, heads * head_dim]  activation
  In cos, sin;  // [tokens, head_dim / 2]      f32
  auto tensors() const { return std::tie(x, cos, sin); }
};
bool valid(const Rope& op);
void define(const Rope& op);

// y[index[i]] = x[i]; the other rows stay.
struct PutRows {
  static constexpr std::string_view name = "put_rows";
  InOut y;   // [rows, n]  f32
  In x;      // [m, n]     f32
  In index;  // [1, m]     i32, each below rows, none twice
  auto tensors() const { return std::tie(y, x, index); }
};
bool valid(const PutRows& op);
void define(const PutRows& op);

}  // namespace clef
