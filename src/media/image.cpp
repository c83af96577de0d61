#include "media/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "media/image_formats.h"

namespace clef {
namespace {

using media::Bytes;

bool starts_with(Bytes bytes, std::string_view signature) {
  return bytes.size() >= signature.size() && std::memcmp(bytes.data(), signature.data(), signature.size()) == 0;
}

Result<media::Size> probe_size(ImageFormat format, Bytes bytes) {
  switch (format) {
    case ImageFormat::png:
      return media::probe_png(bytes);
    case ImageFormat::jpeg:
      return media::probe_jpeg(bytes);
    case ImageFormat::webp:
      return media::probe_webp(bytes);
    case ImageFormat::gif:
      return media::probe_gif(bytes);
    case ImageFormat::bmp:
      return media::probe_bmp(bytes);
  }
  return Error{Errc::internal, "image format"};
}

Status decode_pixels(ImageFormat format, Bytes bytes, std::int64_t max_pixels, Image& image) {
  // A real progressive file goes over its blocks about ten times, most scans over one component: under a quarter of a
  // visit a pixel. A crafted one of 10 kB could ask for hundreds of millions.
  constexpr std::int64_t kPixelsPerVisit = 4, kMinVisits = 4096;
  switch (format) {
    case ImageFormat::png:
      return media::decode_png(bytes, image);
    case ImageFormat::jpeg:
      return media::decode_jpeg(bytes, std::max(kMinVisits, max_pixels / kPixelsPerVisit), image);
    case ImageFormat::webp:
      return media::decode_webp(bytes, image);
    case ImageFormat::gif:
      return media::decode_gif(bytes, image);
    case ImageFormat::bmp:
      return media::decode_bmp(bytes, image);
  }
  return Error{Errc::internal, "image format"};
}

}  // namespace

std::string_view name_of(ImageFormat format) {
  switch (format) {
    case ImageFormat::png:
      return "PNG";
    case ImageFormat::jpeg:
      return "JPEG";
    case ImageFormat::webp:
      return "WebP";
    case ImageFormat::gif:
      return "GIF";
    case ImageFormat::bmp:
      return "BMP";
  }
  return "";
}

std::string_view media_type_of(ImageFormat format) {
  switch (format) {
    case ImageFormat::png:
      return "image/png";
    case ImageFormat::jpeg:
      return "image/jpeg";
    case ImageFormat::webp:
      return "image/webp";
    case ImageFormat::gif:
      return "image/gif";
    case ImageFormat::bmp:
      return "image/bmp";
  }
  return "";
}

std::optional<ImageFormat> sniff_image(Bytes bytes) {
  using namespace std::string_view_literals;
  if (starts_with(bytes, "\x89PNG\r\n\x1a\n"sv)) return ImageFormat::png;
  if (starts_with(bytes, "\xff\xd8\xff"sv)) return ImageFormat::jpeg;
  if (starts_with(bytes, "RIFF"sv) && bytes.size() >= 12 && starts_with(bytes.subspan(8), "WEBP"sv)) {
    return ImageFormat::webp;
  }
  if (starts_with(bytes, "GIF87a"sv) || starts_with(bytes, "GIF89a"sv)) return ImageFormat::gif;
  if (starts_with(bytes, "BM"sv)) return ImageFormat::bmp;
  return std::nullopt;
}

Image Image::allocate(std::int64_t width, std::int64_t height) {
  Image image{.width = width, .height = height, .rgb = nullptr};
  image.rgb.reset(new std::uint8_t[image.size_bytes()]);  // not make_unique, which would write zeros
  return image;
}

Result<ImageHeader> probe_image(Bytes bytes) {
  if (bytes.empty()) return Error{Errc::bad_request, "empty"};
  if (bytes.size() > kMaxImageBytes) {
    return Error{Errc::too_large, fmt::format("encoded image exceeds {} MiB", kMaxImageBytes >> 20)};
  }
  const auto format = sniff_image(bytes);
  if (!format) return Error{Errc::bad_request, "not a PNG, JPEG, WebP, GIF or BMP"};
  const media::Size size = TRY(probe_size(*format, bytes));
  const ImageHeader header{.format = *format, .width = size.width, .height = size.height};
  if (header.width < 1 || header.height < 1) return media::invalid_image(*format, "no pixels");
  if (header.width > kMaxImageSide || header.height > kMaxImageSide) {
    return Error{Errc::too_large,
                 fmt::format("{}x{}: a side exceeds {} pixels", header.width, header.height, kMaxImageSide)};
  }
  if (header.pixels() > kMaxImagePixels) {
    return Error{Errc::too_large, fmt::format("{}x{} is {} pixels, above the limit of {} per image", header.width,
                                              header.height, header.pixels(), kMaxImagePixels)};
  }
  return header;
}

Result<Image> decode_image(Bytes bytes, std::int64_t max_pixels) {
  max_pixels = std::min(max_pixels, kMaxImagePixels);
  const ImageHeader header = TRY(probe_image(bytes));
  if (header.pixels() > max_pixels) {
    return Error{Errc::too_large, fmt::format("{}x{} is {} pixels, above the limit of {} per image", header.width,
                                              header.height, header.pixels(), max_pixels)};
  }
  Image image = Image::allocate(header.width, header.height);
  TRY(decode_pixels(header.format, bytes, max_pixels, image));
  return image;
}

namespace media {

Error invalid_image(ImageFormat format, std::string_view reason) {
  return {Errc::bad_request, fmt::format("invalid or unsupported {}: {}", name_of(format), reason)};
}

Palette::Palette() {
  for (std::size_t i = 0; i < 256; ++i) std::memset(colours_[i], static_cast<int>(i), 3);
}

void Palette::set(std::size_t index, std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  if (index >= 256) return;  // no index of a byte reaches it
  colours_[index][0] = red;
  colours_[index][1] = green;
  colours_[index][2] = blue;
}

void Palette::expand(const std::uint8_t* indices, std::int64_t width, std::uint8_t* rgb) const {
  for (std::int64_t x = width - 1; x >= 0; --x) {  // from the right, for indices in place
    const std::uint8_t* colour = colours_[indices[x]];
    rgb[3 * x] = colour[0];
    rgb[3 * x + 1] = colour[1];
    rgb[3 * x + 2] = colour[2];
  }
}

}  // namespace media
}  // namespace clef
