#include "media/patchify.h"

#include <cstring>

#include "base/check.h"

namespace clef {
namespace {

constexpr std::int64_t kSide = 16, kPlane = kSide * kSide, kMerge = 2;

// Calls `write(row, column, to)` for each patch, with the pixels of its corner and its place in the result.
template <typename Write>
void for_each_patch(const Image& image, std::uint8_t* out, Write write) {
  constexpr std::int64_t kBlock = kSide * kMerge;
  for (std::int64_t y = 0; y < image.height; y += kBlock) {
    for (std::int64_t x = 0; x < image.width; x += kBlock) {
      for (const std::int64_t in_y : {std::int64_t{0}, kSide}) {
        for (const std::int64_t in_x : {std::int64_t{0}, kSide}) {
          write(y + in_y, x + in_x, out);
          out += kPatchBytes;
        }
      }
    }
  }
}

}  // namespace

void patchify(const Image& first, const Image& second, std::uint8_t* out, const media::PixelKernels& kernels) {
  CHECK(first.height == second.height && first.width == second.width);
  CHECK(first.height % (kSide * kMerge) == 0 && first.width % (kSide * kMerge) == 0);
  const bool is_still = &first == &second;
  const std::int64_t stride = first.width * 3;
  for_each_patch(first, out, [&](std::int64_t y, std::int64_t x, std::uint8_t* to) {
    kernels.split_patch(first.row(y) + 3 * x, stride, to);
    if (!is_still) {
      kernels.split_patch(second.row(y) + 3 * x, stride, to + kPlane);
      return;
    }
    for (int channel = 0; channel < 3; ++channel, to += 2 * kPlane) std::memcpy(to + kPlane, to, kPlane);
  });
}

}  // namespace clef
