// Gathering rows on the CPU, and the head's last steps, which are small enough for their definitions.
#include <algorithm>

#include "backend/cpu/run.h"

namespace clef::cpu {

void run(const Embed& op, Context& context) {
  const auto* ids = op.ids.row<const std::int32_t>(0);
  const WeightType type = weight_type(op.table.dtype);
  context.for_rows(op.y.rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t t = first; t < first + count; ++t) {
      context.kernels.widen_row(op.table.address(ids[t]), type, op.y.cols, op.y.row<float>(t));
    }
  });
}

void run(const TakeRows& op, Context& context) {
  const auto* ids = op.ids.row<const std::int32_t>(0);
  context.for_rows(op.y.rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t t = first; t < first + count; ++t) {
      std::copy_n(op.table.row<const float>(ids[t]), op.y.cols, op.y.row<float>(t));
    }
  });
}

void run(const PrependRows& op, Context& context) {
  const auto* cu_seqlens = op.cu_seqlens.row<const std::int32_t>(0);
  const std::int64_t known = op.prefix.rows;
  context.for_rows(op.y.rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t t = first; t < first + count; ++t) {
      const std::int64_t s = sequence_of(op.cu_seqlens, t), place = t - cu_seqlens[s];
      const float* from =
          place < known ? op.prefix.row<const float>(place) : op.x.row<const float>(t - (s + 1) * known);
      std::copy_n(from, op.y.cols, op.y.row<float>(t));
    }
  });
}

void run(const SpanMean& op, Context& context) {
  context.for_rows(op.y.rows, [&](std::int64_t begin, std::int64_t rows) {
    for (std::int64_t i = begin; i < begin + rows; ++i) {
      const std::int32_t first = op.spans.row<const std::int32_t>(i)[0], count = op.spans.row<const std::int32_t>(i)[1];
      float* y = op.y.row<float>(i);
      context.kernels.widen_row(op.x.row<const float>(first), WeightType::f32, op.y.cols, y);
      for (std::int32_t r = 1; r < count; ++r) {
        context.kernels.add_row(op.x.row<const float>(first + r), WeightType::f32, op.y.cols, y);
      }
      context.kernels.scale_row(1.0F / static_cast<float>(count), op.y.cols, y);
    }
  });
}

void run(const EmbedMean& op, Context& context) {
  const auto* ids = op.ids.row<const std::int32_t>(0);
  const WeightType type = weight_type(op.table.dtype);
  context.for_rows(op.y.rows, [&](std::int64_t begin, std::int64_t rows) {
    for (std::int64_t i = begin; i < begin + rows; ++i) {
      const std::int32_t first = op.spans.row<const std::int32_t>(i)[0], count = op.spans.row<const std::int32_t>(i)[1];
      float* y = op.y.row<float>(i);
      context.kernels.widen_row(op.table.address(ids[first]), type, op.y.cols, y);
      for (std::int32_t p = 1; p < count; ++p) {
        context.kernels.add_row(op.table.address(ids[first + p]), type, op.y.cols, y);
      }
      context.kernels.scale_row(1.0F / static_cast<float>(count), op.y.cols, y);
    }
  });
}

void run(const AddRows& op, Context& context) {
  const auto* index = op.index ? op.index.row<const std::int32_t>(0) : nullptr;
  const WeightType type = weight_type(op.x.dtype);
  context.for_rows(op.y.rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t r = first; r < first + count; ++r) {
      context.kernels.add_row(op.x.address(index == nullptr ? r : index[r]), type, op.y.cols, op.y.row<float>(r));
    }
  });
}

void run(const OptionSummary& op, Context&) { define(op); }
void run(const ScorerFeatures& op, Context&) { define(op); }
void run(const OptionLogits& op, Context&) { define(op); }

}  // namespace clef::cpu
