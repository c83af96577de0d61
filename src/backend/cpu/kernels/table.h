// The table of one instruction set. Included last, after a vec_*.h header.
#pragma once

#include "backend/cpu/kernels/kernels.h"

// The order matters: each uses the words of those before. Blank lines keep the formatter from sorting them.
#include "backend/cpu/kernels/vec_math.h"

#include "backend/cpu/kernels/tile.h"

#include "backend/cpu/kernels/linear.h"

#include "backend/cpu/kernels/rows.h"

#include "backend/cpu/kernels/attention.h"

#include "backend/cpu/kernels/delta_net.h"

namespace clef::cpu {
namespace {

constexpr Kernels make_table(const char* name) {
  return {.name = name,
          .linear_scratch = linear_scratch,
          .linear_block = linear_block,
          .attention_scratch = attention_scratch,
          .attention_block = attention_block,
          .delta_net_scratch = delta_net_scratch,
          .delta_net_head = delta_net_head,
          .short_conv_token = short_conv_token,
          .head_norm_rope = head_norm_rope,
          .rms_norm_row = rms_norm_row,
          .gated_rms_norm_row = gated_rms_norm_row,
          .layer_norm_row = layer_norm_row,
          .widen_row = widen_row,
          .add_row = add_row,
          .add_scaled_row = add_scaled_row,
          .rope_head = rope_head,
          .scale_row = scale_row,
          .fma_peak = fma_peak};
}

}  // namespace
}  // namespace clef::cpu
