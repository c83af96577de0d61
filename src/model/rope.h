// Rotary angles as the reference forms them: in float32, interleaved over three axes.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/config.h"

namespace clef {

enum class RopeAxis : std::uint8_t { temporal, height, width };

// Which position turns pair i.      Source: Qwen3_5TextRotaryEmbedding.apply_interleaved_mrope.
std::vector<RopeAxis> rope_axes(const TextConfig& config);

// 1 / theta^(2i / rotary_dim) for each pair.
std::vector<float> rope_frequencies(const TextConfig& config);

// Cosines and sines by position, made once for each position that was asked for: a long record has a million of them.
class RopeTable {
 public:
  explicit RopeTable(const TextConfig& config);
  std::int64_t pairs() const { return static_cast<std::int64_t>(frequencies_.size()); }
  // cos and sin of position * frequency for one token, [pairs] each, appended. position: temporal, height, width, none
  // negative. The product is rounded to float32 as in the reference; its cosine is then taken exactly and rounded once.
  void append(const std::array<std::int32_t, 3>& position, std::vector<float>& cos, std::vector<float>& sin);

 private:
  void reach(std::int32_t position);

  std::vector<float> frequencies_;
  std::vector<RopeAxis> axes_;
  std::vector<float> cos_, sin_;  // [positions, pairs]
};

}  // namespace clef
