// The vision tower's own ops on the CPU.
#include <algorithm>

#include "backend/cpu/run.h"

namespace clef::cpu {

namespace {

// Wraps host memory of this file's own, so that it can stand in an op.
struct LocalBuffer final : Buffer {
  explicit LocalBuffer(std::size_t floats) : LocalBuffer(std::make_unique<float[]>(floats), floats) {}

 private:
  LocalBuffer(std::unique_ptr<float[]> memory, std::size_t floats)
      : Buffer(memory.get(), floats * sizeof(float)), memory_(std::move(memory)) {}
  std::unique_ptr<float[]> memory_;
};

}  // namespace

void run(const PatchEmbed& op, Context& context) {
  // Levels are widened a block of patches at a time: all of a large image's pixels in float32 would be hundreds of MB.
  constexpr std::int64_t kPatches = 2048;
  const std::int64_t width = op.levels.cols;
  float value_of[256];
  for (int level = 0; level < 256; ++level) value_of[level] = (static_cast<float>(level) - 127.5F) / 127.5F;
  LocalBuffer pixels(static_cast<std::size_t>(std::min(kPatches, op.y.rows) * width));
  for (std::int64_t first = 0; first < op.y.rows; first += kPatches) {
    const std::int64_t count = std::min(kPatches, op.y.rows - first);
    const Tensor x{.buffer = &pixels, .rows = count, .cols = width, .stride = width, .dtype = DType::f32};
    context.for_rows(count, [&](std::int64_t begin, std::int64_t rows) {
      for (std::int64_t r = begin; r < begin + rows; ++r) {
        const std::uint8_t* levels = op.levels.row<const std::uint8_t>(first + r);
        float* out = x.row<float>(r);
        for (std::int64_t c = 0; c < width; ++c) out[c] = value_of[levels[c]];
      }
    });
    run(Linear{.y = op.y.row_range(first, count), .x = x, .w = op.w, .bias = op.bias}, context);
  }
}

void run(const AddInterpolated& op, Context& context) {
  const WeightType type = weight_type(op.table.dtype);
  context.for_rows(op.y.rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t r = first; r < first + count; ++r) {
      for (std::int64_t j = 0; j < op.taps.cols; ++j) {
        context.kernels.add_scaled_row(op.table.address(op.taps.row<const std::int32_t>(r)[j]), type,
                                       op.weights.row<const float>(r)[j], op.y.cols, op.y.row<float>(r));
      }
    }
  });
}

void run(const Rope& op, Context& context) {
  const std::int64_t pairs = op.cos.cols;
  context.for_rows(op.x.rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t t = first; t < first + count; ++t) {
      for (std::int64_t h = 0; h < op.x.cols; h += 2 * pairs) {
        context.kernels.rope_head(op.x.row<float>(t) + h, op.cos.row<const float>(t), op.sin.row<const float>(t),
                                  pairs);
      }
    }
  });
}

void run(const PutRows& op, Context& context) {
  const auto* index = op.index.row<const std::int32_t>(0);
  context.for_rows(op.x.rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t i = first; i < first + count; ++i) {
      std::copy_n(op.x.row<const float>(i), op.x.cols, op.y.row<float>(index[i]));
    }
  });
}

}  // namespace clef::cpu
