// Pixels to the rows that the vision tower reads. Source: Qwen2VLImageProcessor, image_processing_qwen2_vl.py.
#pragma once

#include <cstdint>

#include "media/image.h"
#include "media/pixel_kernels.h"

namespace clef {

inline constexpr std::int64_t kPatchBytes = 3 * 2 * 16 * 16;  // channel, frame, y, x

// Bytes that patchify() writes for frames of that size, sides multiples of 32.
constexpr std::int64_t patches_bytes(std::int64_t height, std::int64_t width) {
  return height / 16 * (width / 16) * kPatchBytes;
}

// [height/16 * width/16, 1536]: blocks of 2 x 2 patches in raster order, inside a block row by row; each row of the
// result channel, frame, y, x. A still picture is given as both frames.
void patchify(const Image& first, const Image& second, std::uint8_t* out,
              const media::PixelKernels& kernels = media::best_pixel_kernels());

}  // namespace clef
