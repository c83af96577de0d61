// The inner loops over pixels, once for each instruction set. All sets give the same bytes: the arithmetic is integer.
#pragma once

#include <cstdint>

namespace clef::media {

// How one side of a picture is resampled. Output i is the weighted sum of `taps` inputs from first[i]; the weights are
// fixed-point with `precision` fractional bits and, where fewer inputs count, end in zeros.
struct AxisView {
  std::int64_t size = 0;                  // outputs
  std::int64_t taps = 0;                  // a multiple of kTapStep
  int precision = 0;                      // 14..22
  const std::int32_t* first = nullptr;    // [size]
  const std::int16_t* weights = nullptr;  // [size, taps]
};

inline constexpr std::int64_t kTapStep = 4;
// How far past the last input that counts a row of pixels may be read: zero weights, and loads of 16 bytes for 12.
inline constexpr std::int64_t kRowSlackBytes = 16;

struct PixelKernels {
  const char* name;
  // A row of RGB pixels to axis.size pixels: each channel clamp((2^(precision - 1) + sum) >> precision, 0, 255).
  void (*resize_row)(const std::uint8_t* in, const AxisView& axis, std::uint8_t* out);
  // The same down columns: `num_bytes` bytes, each the weighted sum of its place in `taps` rows.
  void (*blend_rows)(const std::uint8_t* const* rows, const std::int16_t* weights, std::int64_t taps, int precision,
                     std::int64_t num_bytes, std::uint8_t* out);
  // 16 x 16 RGB pixels, rows `stride` bytes apart, to three planes of 256 bytes, 512 bytes apart.
  void (*split_patch)(const std::uint8_t* in, std::int64_t stride, std::uint8_t* planes);
};

extern const PixelKernels kPixelKernelsPlain;
extern const PixelKernels kPixelKernelsAvx2;  // x86-64 alone

// By name, if this machine can run them; null otherwise.
const PixelKernels* find_pixel_kernels(const char* name);
const PixelKernels& best_pixel_kernels();

}  // namespace clef::media
