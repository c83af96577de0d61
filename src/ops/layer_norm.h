#pragma once

#include <string_view>
#include <tuple>

#include "ops/io.h"

namespace clef {

// y = (x - mean) / sqrt(var + eps) * gain + bias, row by row, biased variance.      Source: nn.LayerNorm.
struct LayerNorm {
  static constexpr std::string_view name = "layer_norm";
  Out y;    // [rows, n]  activation
  In x;     // [rows, n]  f32
  In gain;  // [1, n]     f32
  In bias;  // [1, n]     f32
  float eps = 0;
  auto tensors() const { return std::tie(y, x, gain, bias); }
};
bool valid(const LayerNorm& op);
void define(const LayerNorm& op);

}  // namespace clef
