#include "model/rope.h"

#include <cmath>

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

void append_rope(const std::vector<float>& frequencies, const std::vector<RopeAxis>& axes, const float (&position)[3],
                 std::vector<float>& cos, std::vector<float>& sin) {
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float angle = position[static_cast<std::size_t>(axes[i])] * frequencies[i];
    cos.push_back(static_cast<float>(std::cos(static_cast<double>(angle))));
    sin.push_back(static_cast<float>(std::sin(static_cast<double>(angle))));
  }
}

}  // namespace clef
