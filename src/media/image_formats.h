// One reader a format, for image.cpp. Each gives the header alone, and the pixels of a picture whose size has been
// checked against the limits: `image` is allocated and of the header's size. Messages carry no prefix.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "media/image.h"

namespace clef::media {

using Bytes = std::span<const std::uint8_t>;

struct Size {
  std::int64_t width = 0, height = 0;
};

Result<Size> probe_png(Bytes bytes);
Status decode_png(Bytes bytes, Image& image);

Result<Size> probe_jpeg(Bytes bytes);
// `max_block_visits`: how many 8 x 8 blocks may be gone over, in all scans together.
Status decode_jpeg(Bytes bytes, std::int64_t max_block_visits, Image& image);

Result<Size> probe_webp(Bytes bytes);
Status decode_webp(Bytes bytes, Image& image);

Result<Size> probe_gif(Bytes bytes);
Status decode_gif(Bytes bytes, Image& image);

Result<Size> probe_bmp(Bytes bytes);
Status decode_bmp(Bytes bytes, Image& image);

// `invalid or unsupported PNG: REASON`
Error invalid_image(ImageFormat format, std::string_view reason);

// Colours by index. Pillow starts from a grey ramp, which shows where a file's palette is shorter than its indices.
class Palette {
 public:
  Palette();
  void set(std::size_t index, std::uint8_t red, std::uint8_t green, std::uint8_t blue);
  // `width` indices at `indices` to pixels at `rgb`; the indices may be the first bytes of the pixels' own row.
  void expand(const std::uint8_t* indices, std::int64_t width, std::uint8_t* rgb) const;

 private:
  std::uint8_t colours_[256][3];
};

}  // namespace clef::media
