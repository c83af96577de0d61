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

RopeTable::RopeTable(const TextConfig& config) : frequencies_(rope_frequencies(config)), axes_(rope_axes(config)) {}

void RopeTable::reach(std::int32_t position) {
  CHECK(position >= 0);
  for (std::size_t p = cos_.size() / frequencies_.size(); p <= static_cast<std::size_t>(position); ++p) {
    for (const float frequency : frequencies_) {
      const float angle = static_cast<float>(p) * frequency;
      cos_.push_back(static_cast<float>(std::cos(static_cast<double>(angle))));
      sin_.push_back(static_cast<float>(std::sin(static_cast<double>(angle))));
    }
  }
}

void RopeTable::append(const std::array<std::int32_t, 3>& position, std::vector<float>& cos, std::vector<float>& sin) {
  const std::size_t pairs = frequencies_.size();
  reach(std::max({position[0], position[1], position[2]}));
  const auto row = [&](std::int32_t p) { return static_cast<std::ptrdiff_t>(static_cast<std::size_t>(p) * pairs); };
  if (position[0] == position[1] && position[0] == position[2]) {
    const std::ptrdiff_t first = row(position[0]), last = first + static_cast<std::ptrdiff_t>(pairs);
    cos.insert(cos.end(), cos_.begin() + first, cos_.begin() + last);
    sin.insert(sin.end(), sin_.begin() + first, sin_.begin() + last);
    return;
  }
  for (std::size_t i = 0; i < pairs; ++i) {
    const auto at = static_cast<std::size_t>(row(position[static_cast<std::size_t>(axes_[i])])) + i;
    cos.push_back(cos_[at]);
    sin.push_back(sin_[at]);
  }
}

}  // namespace clef
