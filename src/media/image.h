// A picture file's bytes to pixels, exactly as Pillow's convert("RGB") gives them: alpha is dropped, not blended;
// gamma, colour profile and EXIF orientation are ignored.
//
// Reading has two steps so that a caller can check limits in between: probe_image() looks at the header alone,
// decode_image() does the work. Time and memory are bounded by the limits, whatever the bytes say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace clef {

enum class ImageFormat : std::uint8_t { png, jpeg, webp, gif, bmp };

std::string_view name_of(ImageFormat format);        // "PNG"
std::string_view media_type_of(ImageFormat format);  // "image/png"

// By signature. Nothing: not a format that we read.
std::optional<ImageFormat> sniff_image(std::span<const std::uint8_t> bytes);

inline constexpr std::size_t kMaxImageBytes = std::size_t{64} << 20;  // encoded
inline constexpr std::int64_t kMaxImageSide = 16384;                  // pixels
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{64} << 20;

struct ImageHeader {
  ImageFormat format = ImageFormat::png;
  std::int64_t width = 0, height = 0;
  std::int64_t pixels() const { return width * height; }
};

// Rows from the top, three bytes a pixel, no gaps. The memory is not written before it is decoded into, so that a file
// that claims more than it holds costs no more than it holds.
struct Image {
  std::int64_t width = 0, height = 0;
  std::unique_ptr<std::uint8_t[]> rgb;

  static Image allocate(std::int64_t width, std::int64_t height);
  std::size_t size_bytes() const { return static_cast<std::size_t>(width * height * 3); }
  std::uint8_t* row(std::int64_t y) { return rgb.get() + y * width * 3; }
  const std::uint8_t* row(std::int64_t y) const { return rgb.get() + y * width * 3; }
  std::span<const std::uint8_t> bytes() const { return {rgb.get(), size_bytes()}; }
};

// Format and size. Errc::bad_request when the bytes are no picture of a format we read, or break before the size is
// known; too_large over the hard caps above.
Result<ImageHeader> probe_image(std::span<const std::uint8_t> bytes);

// All pixels. `max_pixels` is the caller's own limit on width * height, at most kMaxImagePixels: a picture above it is
// refused before anything is allocated, and it bounds the work that a progressive JPEG may ask for.
Result<Image> decode_image(std::span<const std::uint8_t> bytes, std::int64_t max_pixels = kMaxImagePixels);

}  // namespace clef
