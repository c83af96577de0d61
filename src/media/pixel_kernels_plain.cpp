// The inner loops over pixels in portable C++, written so that compilers vectorise them.
#include <algorithm>

#include "media/pixel_kernels.h"

namespace clef::media {
namespace {

std::uint8_t round_shift(std::int32_t sum, int precision) {
  return static_cast<std::uint8_t>(std::clamp((sum + (1 << (precision - 1))) >> precision, 0, 255));
}

void resize_row(const std::uint8_t* in, const AxisView& axis, std::uint8_t* out) {
  for (std::int64_t i = 0; i < axis.size; ++i) {
    const std::int16_t* weights = axis.weights + i * axis.taps;
    const std::uint8_t* pixel = in + 3 * std::int64_t{axis.first[i]};
    std::int32_t red = 0, green = 0, blue = 0;
    for (std::int64_t j = 0; j < axis.taps; ++j, pixel += 3) {
      red += weights[j] * pixel[0];
      green += weights[j] * pixel[1];
      blue += weights[j] * pixel[2];
    }
    out[3 * i] = round_shift(red, axis.precision);
    out[3 * i + 1] = round_shift(green, axis.precision);
    out[3 * i + 2] = round_shift(blue, axis.precision);
  }
}

void blend_rows(const std::uint8_t* const* rows, const std::int16_t* weights, std::int64_t taps, int precision,
                std::int64_t num_bytes, std::uint8_t* out) {
  constexpr std::int64_t kBlock = 512;  // sums that stay in the first-level cache
  std::int32_t sums[kBlock];
  for (std::int64_t at = 0; at < num_bytes; at += kBlock) {
    const std::int64_t count = std::min(kBlock, num_bytes - at);
    std::fill(sums, sums + count, 0);
    for (std::int64_t j = 0; j < taps; ++j) {
      const std::int32_t weight = weights[j];
      const std::uint8_t* row = rows[j] + at;
      for (std::int64_t x = 0; x < count; ++x) sums[x] += weight * row[x];
    }
    for (std::int64_t x = 0; x < count; ++x) out[at + x] = round_shift(sums[x], precision);
  }
}

void split_patch(const std::uint8_t* in, std::int64_t stride, std::uint8_t* planes) {
  for (int y = 0; y < 16; ++y, in += stride, planes += 16) {
    for (int x = 0; x < 16; ++x) {
      planes[x] = in[3 * x];
      planes[512 + x] = in[3 * x + 1];
      planes[1024 + x] = in[3 * x + 2];
    }
  }
}

}  // namespace

constinit const PixelKernels kPixelKernelsPlain = {"plain", resize_row, blend_rows, split_patch};

}  // namespace clef::media
