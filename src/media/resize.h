// To the size the vision tower takes, as the reference does it: smart_resize, then torchvision's antialiased bicubic
// on bytes as it runs on x86.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "media/image.h"
#include "media/pixel_kernels.h"

namespace clef {

inline constexpr std::int64_t kPatchSide = 16;   // pixels
inline constexpr std::int64_t kSideFactor = 32;  // a side of what the tower takes is a multiple: 2 x 2 patches a token

// Bounds on width * height. The reference's names for them are shortest_edge and longest_edge.
struct PixelBounds {
  std::int64_t min_pixels = 65536, max_pixels = 16777216;
  bool operator==(const PixelBounds&) const = default;
};

struct TargetSize {
  std::int64_t height = 0, width = 0;  // multiples of kSideFactor
  std::int64_t grid_h() const { return height / kPatchSide; }
  std::int64_t grid_w() const { return width / kPatchSide; }
  std::int64_t tokens() const { return height * width / (kSideFactor * kSideFactor); }
  bool operator==(const TargetSize&) const = default;
};

// Errc::bad_request for a picture more than 200 times as long as it is wide, or the other way round.
// Source: smart_resize, image_processing_qwen2_vl.py.
Result<TargetSize> smart_resize(std::int64_t height, std::int64_t width, const PixelBounds& bounds);

// The same for a video of `num_frames` frames: the bounds hold for all frames together, and sides below kSideFactor are
// enlarged to it first. Errc::bad_request also for fewer than two frames.
// Source: smart_resize, video_processing_qwen3_vl.py of transformers 5.17.
Result<TargetSize> smart_resize_video(std::int64_t num_frames, std::int64_t height, std::int64_t width,
                                      const PixelBounds& bounds);

// Stretches to exactly `height` x `width`: along the rows first, then down the columns, each pass ending in bytes.
Image resize(Image image, std::int64_t height, std::int64_t width,
             const media::PixelKernels& kernels = media::best_pixel_kernels());

namespace media {

// Weights for one side, `in` to `out` pixels. Source: torchvision's resize(antialias=True) on uint8, by its int16 path.
struct Axis {
  Axis(std::int64_t in, std::int64_t out);
  AxisView view() const;

  std::int64_t size = 0, taps = 0;
  int precision = 0;
  std::vector<std::int32_t> first, count;  // [size]; count: weights that are not padding
  std::vector<std::int16_t> weights;       // [size, taps]
};

}  // namespace media
}  // namespace clef
