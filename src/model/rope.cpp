#include "model/rope.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace clef {

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

Status DeviceAngles::reach(std::int64_t position) {
  CHECK(position >= 0);
  if (cos_ && position < cos_.rows) return {};
  constexpr std::uint64_t kFewest = 1024;
  const auto positions =
      static_cast<std::int64_t>(std::bit_ceil(std::max(kFewest, static_cast<std::uint64_t>(position) + 1)));
  const auto pairs = static_cast<std::int64_t>(angles_.width());
  angles_.reach(positions - 1);
  cos_ = sin_ = {};
  TRY(memory_.reset(2 * Arena::bytes_for(positions, pairs)));
  const Tensor cos = memory_.take(positions, pairs), sin = memory_.take(positions, pairs);
  TRY(device_.upload(cos, std::as_bytes(angles_.all_cos())));
  TRY(device_.upload(sin, std::as_bytes(angles_.all_sin())));
  cos_ = cos;
  sin_ = sin;
  return {};
}

}  // namespace clef
