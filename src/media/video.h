// Which frames of a clip the network sees, and what time they stand for. Source: Qwen3VLVideoProcessor.sample_frames
// and Qwen3VLProcessor._calculate_timestamps of transformers 5.17.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace clef {

// How many of `num_frames` frames at `source_fps` to take for `target_fps`: at least `min_frames` and at most
// `max_frames`, but never more than there are.
struct FrameRate {
  double source_fps = 24, target_fps = 2;
  std::int64_t min_frames = 4, max_frames = 768;
};
std::int64_t sampled_frame_count(std::int64_t num_frames, const FrameRate& rate);

// `count` indices spread evenly over 0 .. num_frames - 1, both ends included; rounded half to even.
std::vector<std::int64_t> evenly_spaced(std::int64_t num_frames, std::int64_t count);

// Two frames make a slice of the network's time; of an odd number the last counts twice.
constexpr std::int64_t num_slices(std::int64_t num_frames) { return (num_frames + 1) / 2; }

// `<0.3 seconds>`: the mean time of a slice's two frames, from their indices in the source.
std::string slice_timestamp(std::span<const std::int64_t> frame_indices, std::int64_t slice, double source_fps);

}  // namespace clef
