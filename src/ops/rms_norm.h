#pragma once

#include <string_view>
#include <tuple>

#include "ops/low_part.h"

namespace clef {

// y = x / sqrt(mean(x^2) + eps) * gain, row by row.      Source: Qwen3_5RMSNorm.
struct RmsNorm {
  static constexpr std::string_view name = "rms_norm";
  Out y;    // [rows, n]  activation, or x itself
  In x;     // [rows, n]  f32, the residual stream
  In gain;  // [1, n]     f32, 1 + w, added once at load
  float eps = 0;
  LowOut low = {};           // of y, or none
  PreciseRows precise = {};  // or none
  auto tensors() const { return std::tie(y, x, gain, low.values, low.scales, precise.rows, precise.places); }
};
bool valid(const RmsNorm& op);
void define(const RmsNorm& op);

// y = gain * (x / sqrt(mean(x^2) + eps)) * silu(z), head by head; gain as stored (no 1 +).
// Source: Qwen3_5RMSNormGated, the output norm of Gated DeltaNet.
struct GatedRmsNorm {
  static constexpr std::string_view name = "gated_rms_norm";
  Out y;    // [tokens, heads * n]  activation
  In x;     // [tokens, heads * n]  activation; f32 where there is a low part
  In z;     // [tokens, heads * n]  as x
  In gain;  // [1, n]               f32, shared by the heads
  float eps = 0;
  LowOut low = {};           // of y, or none
  PreciseRows precise = {};  // or none
  auto tensors() const { return std::tie(y, x, z, gain, low.values, low.scales, precise.rows, precise.places); }
};
bool valid(const GatedRmsNorm& op);
void define(const GatedRmsNorm& op);

}  // namespace clef
