// Picture files as requests carry them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace clef::test {

std::string to_base64(std::string_view bytes);

// A file of tests/golden/images as a data URL.
std::string golden_data_url(const std::string& name);

// RGB pixels, three bytes each, as an uncompressed BMP of 24 bits.
std::string bmp_of(std::span<const std::uint8_t> rgb, std::int64_t width, std::int64_t height);

// A PNG chunk with its checksum, and a whole file of IHDR, the chunks given and IEND.
std::string png_chunk(std::string_view type, std::string_view data);
struct PngHeader {
  std::uint32_t width = 1, height = 1;
  int bit_depth = 8, colour_type = 2;
  bool interlaced = false;
};
std::string png_of(const PngHeader& header, std::string_view chunks);
std::string zlib_compressed(std::string_view bytes);

}  // namespace clef::test
