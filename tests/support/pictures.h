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

}  // namespace clef::test
