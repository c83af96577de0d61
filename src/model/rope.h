// Rotary angles as the reference forms them: in float32, interleaved over three axes.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"

namespace clef {

enum class RopeAxis : std::uint8_t { temporal, height, width };

// Which position turns pair i.      Source: Qwen3_5TextRotaryEmbedding.apply_interleaved_mrope.
std::vector<RopeAxis> rope_axes(const TextConfig& config);

// 1 / theta^(2i / rotary_dim) for each pair.
std::vector<float> rope_frequencies(const TextConfig& config);

// cos and sin of position * frequency for one token, [pairs] each, appended. The product is rounded to float32 as in
// the reference; its cosine is then taken exactly and rounded once.
void append_rope(const std::vector<float>& frequencies, const std::vector<RopeAxis>& axes, const float (&position)[3],
                 std::vector<float>& cos, std::vector<float>& sin);

}  // namespace clef
