#include "model/rope.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace clef {

std::vector<RopeAxis> rope_axes(const TextConfig& config) {
  const std::int64_t pairs = config.rotary_dim / 2;
  std::vector<RopeAxis> axes(static_cast<std::size_t>(pairs), RopeAxis::temporal);
  for (std::int64_t i = 0; i < pairs; ++i) {
    if (i % 3 == 1 && i < 3 * config.mrope_section[1]) axes[static_cast<std::size_t>(i)] = RopeAxis::height;
    if (i % 3 == 2 && i < 3 * config.mrope_section[2]) axes[static_cast<std::size_t>(i)] = RopeAxis::width;
  }
  return axes;
}

std::vector<float> rope_frequencies(const TextConfig& config) {
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < config.rotary_dim / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.rotary_dim);
    const auto power =
        static_cast<float>(std::pow(static_cast<double>(config.rope_theta), static_cast<double>(exponent)));
    frequencies.push_back(1.0F / power);
  }
  return frequencies;
}

void AngleTable::reach(std::int64_t position) {
  CHECK(position >= 0);
  for (std::size_t p = cos_.size() / width(); p <= static_cast<std::size_t>(position); ++p) {
    for (const float frequency : frequencies_) {
      const float angle = static_cast<float>(p) * frequency;
      cos_.push_back(static_cast<float>(std::cos(static_cast<double>(angle))));
      sin_.push_back(static_cast<float>(std::sin(static_cast<double>(angle))));
    }
  }
}

RopeTable::RopeTable(const TextConfig& config) : angles_(rope_frequencies(config)), axes_(rope_axes(config)) {}

void RopeTable::append(const std::array<std::int32_t, 3>& position, std::vector<float>& cos, std::vector<float>& sin) {
  angles_.reach(std::max({position[0], position[1], position[2]}));
  if (position[0] == position[1] && position[0] == position[2]) {
    const auto all_cos = angles_.cos(position[0]), all_sin = angles_.sin(position[0]);
    cos.insert(cos.end(), all_cos.begin(), all_cos.end());
    sin.insert(sin.end(), all_sin.begin(), all_sin.end());
    return;
  }
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const std::int32_t of_axis = position[static_cast<std::size_t>(axes_[i])];
    cos.push_back(angles_.cos(of_axis)[i]);
    sin.push_back(angles_.sin(of_axis)[i]);
  }
}

}  // namespace clef
