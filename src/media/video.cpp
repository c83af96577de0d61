#include "media/video.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace clef {

std::int64_t sampled_frame_count(std::int64_t num_frames, const FrameRate& rate) {
  const double wanted = static_cast<double>(num_frames) / rate.source_fps * rate.target_fps;
  const double most = static_cast<double>(std::min(rate.max_frames, num_frames));
  if (wanted >= most) return std::min(rate.max_frames, num_frames);  // also what no integer could hold
  const auto count = std::max(static_cast<std::int64_t>(wanted), rate.min_frames);
  return std::min({count, rate.max_frames, num_frames});
}

std::vector<std::int64_t> evenly_spaced(std::int64_t num_frames, std::int64_t count) {
  std::vector<std::int64_t> indices;
  // As numpy.linspace: multiples of one step, and the last point set to the end.
  const double step = count > 1 ? static_cast<double>(num_frames - 1) / static_cast<double>(count - 1) : 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const bool last = k > 0 && k == count - 1;
    indices.push_back(last ? num_frames - 1 : static_cast<std::int64_t>(std::nearbyint(static_cast<double>(k) * step)));
  }
  return indices;
}

std::string slice_timestamp(std::span<const std::int64_t> frame_indices, std::int64_t slice, double source_fps) {
  const auto first = static_cast<std::size_t>(2 * slice), second = std::min(first + 1, frame_indices.size() - 1);
  const auto seconds = [&](std::size_t frame) { return static_cast<double>(frame_indices[frame]) / source_fps; };
  return fmt::format("<{:.1f} seconds>", (seconds(first) + seconds(second)) / 2);
}

}  // namespace clef
