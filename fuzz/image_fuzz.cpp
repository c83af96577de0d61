// Picture files of all formats through the decoder, the resampler and the cut into patches.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "media/image.h"
#include "media/patchify.h"
#include "media/resize.h"

namespace clef {
namespace {

constexpr std::int64_t kMaxPixels = 1 << 18;  // keeps a run short

// CRC-32 of PNG, bit by bit.
std::uint32_t crc32(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = 0xffffffff;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (0xedb88320 & (0 - (crc & 1)));
  }
  return ~crc;
}

// Checksums would stop every changed PNG at the door, so they are put right.
void mend_png(std::vector<std::uint8_t>& file) {
  std::size_t at = 8;
  while (file.size() - at >= 12) {
    const std::size_t length =
        std::size_t{file[at]} << 24 | std::size_t{file[at + 1]} << 16 | std::size_t{file[at + 2]} << 8 | file[at + 3];
    if (length > file.size() - at - 12) return;
    const std::uint32_t crc = crc32(std::span(file).subspan(at + 4, length + 4));
    at += 8 + length;
    for (int shift = 24; shift >= 0; shift -= 8) file[at++] = static_cast<std::uint8_t>(crc >> shift);
  }
}

bool same(const Image& a, const Image& b) {
  return a.width == b.width && a.height == b.height && std::memcmp(a.rgb.get(), b.rgb.get(), a.size_bytes()) == 0;
}

void check_picture(std::span<const std::uint8_t> file) {
  const auto header = probe_image(file);
  auto image = decode_image(file, kMaxPixels);
  if (!image) {
    CHECK(image.error().code == Errc::bad_request || image.error().code == Errc::too_large);
    return;
  }
  CHECK(header.has_value() && header->width == image->width && header->height == image->height);
  // Every pixel is written, so a second reading gives the same: memory from before would not.
  const auto again = decode_image(file, kMaxPixels);
  CHECK(again.has_value() && same(*image, *again));

  const auto size = smart_resize(image->height, image->width, {.min_pixels = 1024, .max_pixels = 16384});
  if (!size) return;
  const media::PixelKernels& plain = *media::find_pixel_kernels("plain");
  Image other = Image::allocate(image->width, image->height);
  std::memcpy(other.rgb.get(), image->rgb.get(), image->size_bytes());
  const Image resized = resize(std::move(image).value(), size->height, size->width);
  CHECK(same(resized, resize(std::move(other), size->height, size->width, plain)));
  std::vector<std::uint8_t> patches(static_cast<std::size_t>(patches_bytes(size->height, size->width)));
  patchify(resized, resized, patches.data());
}

}  // namespace
}  // namespace clef

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> file(data, data + size);
  if (clef::sniff_image(file) == clef::ImageFormat::png) clef::mend_png(file);
  clef::check_picture(file);
  return 0;
}
