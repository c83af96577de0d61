// Rotary angles as the reference forms them: in float32, interleaved over three axes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/config.h"

namespace clef {

enum class RopeAxis : std::uint8_t { temporal, height, width };

// Which position turns pair i.      Source: Qwen3_5TextRotaryEmbedding.apply_interleaved_mrope.
std::vector<RopeAxis> rope_axes(const TextConfig& config);

// 1 / theta^(2i / rotary_dim) for each pair.
std::vector<float> rope_frequencies(const TextConfig& config);

// Cosines and sines of position * frequency, made once for each position that was asked for: a long record has a
// million of them. The product is rounded to float32 as in the reference; its cosine is then taken exactly and rounded
// once.
class AngleTable {
 public:
  explicit AngleTable(std::vector<float> frequencies) : frequencies_(std::move(frequencies)) {}
  std::size_t width() const { return frequencies_.size(); }
  // Positions up to this one, which is not negative, can be asked for.
  void reach(std::int64_t position);
  std::span<const float> cos(std::int64_t position) const { return row(cos_, position); }  // [width]
  std::span<const float> sin(std::int64_t position) const { return row(sin_, position); }

 private:
  std::span<const float> row(const std::vector<float>& of, std::int64_t position) const {
    return std::span(of).subspan(static_cast<std::size_t>(position) * width(), width());
  }
  std::vector<float> frequencies_, cos_, sin_;
};

// The text layers' angles.
class RopeTable {
 public:
  explicit RopeTable(const TextConfig& config);
  std::int64_t pairs() const { return static_cast<std::int64_t>(angles_.width()); }
  // cos and sin for one token, [pairs] each, appended. position: temporal, height, width, none negative.
  void append(const std::array<std::int32_t, 3>& position, std::vector<float>& cos, std::vector<float>& sin);

 private:
  AngleTable angles_;
  std::vector<RopeAxis> axes_;
};

}  // namespace clef
