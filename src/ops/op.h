// All ops. A backend that lacks one does not compile.
#pragma once

#include <string_view>
#include <variant>

#include "ops/attention.h"
#include "ops/delta_net.h"
#include "ops/embed.h"
#include "ops/layer_norm.h"
#include "ops/linear.h"
#include "ops/option_logits.h"
#include "ops/pool.h"
#include "ops/prepend_rows.h"
#include "ops/qk_norm_rope.h"
#include "ops/rms_norm.h"
#include "ops/vision.h"

namespace clef {

using Op = std::variant<Embed, RmsNorm, GatedRmsNorm, LayerNorm, Linear, Projections, LinearAdd, LinearSwiglu,
                        LinearGelu, QkNormRope, Attention, CrossAttention, ShortConv, DeltaNet, SpanMean, EmbedMean,
                        AddRows, OptionSummary, ScorerFeatures, OptionLogits, PatchEmbed, AddInterpolated, Rope,
                        PutRows, PrependRows, TakeRows>;

inline std::string_view name_of(const Op& op) {
  return std::visit([](const auto& o) { return o.name; }, op);
}
// Shapes, types and roles fit together.
inline bool is_valid(const Op& op) {
  return std::visit([](const auto& o) { return valid(o); }, op);
}
// Runs the op's definition: plain loops in double over memory the host can reach.
inline void define_op(const Op& op) {
  std::visit([](const auto& o) { define(o); }, op);
}

}  // namespace clef
