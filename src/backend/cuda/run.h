// How the GPU runs each op.
#pragma once

#include "backend/cuda/context.h"
#include "ops/op.h"

namespace clef::cuda {

void run(const Embed& op, Context& context);
void run(const RmsNorm& op, Context& context);
void run(const GatedRmsNorm& op, Context& context);
void run(const LayerNorm& op, Context& context);
void run(const Linear& op, Context& context);
void run(const Projections& op, Context& context);
void run(const LinearAdd& op, Context& context);
void run(const LinearSwiglu& op, Context& context);
void run(const LinearGelu& op, Context& context);
void run(const QkNormRope& op, Context& context);
void run(const Attention& op, Context& context);
void run(const CrossAttention& op, Context& context);
void run(const ShortConv& op, Context& context);
void run(const DeltaNet& op, Context& context);
void run(const SpanMean& op, Context& context);
void run(const EmbedMean& op, Context& context);
void run(const AddRows& op, Context& context);
void run(const OptionSummary& op, Context& context);
void run(const ScorerFeatures& op, Context& context);
void run(const OptionLogits& op, Context& context);
void run(const PatchEmbed& op, Context& context);
void run(const AddInterpolated& op, Context& context);
void run(const Rope& op, Context& context);
void run(const PutRows& op, Context& context);
void run(const PrependRows& op, Context& context);
void run(const TakeRows& op, Context& context);

}  // namespace clef::cuda
