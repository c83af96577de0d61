#include "support/pictures.h"

#include <stdexcept>

#include "support/golden.h"

namespace clef::test {

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) out += i <= count ? alphabet[group >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

std::string golden_data_url(const std::string& name) {
  std::string type = name.substr(name.rfind('.') + 1);
  if (type == "jpg") type = "jpeg";
  return "data:image/" + type + ";base64," + to_base64(read_file(golden_path("images/" + name)));
}

std::string bmp_of(std::span<const std::uint8_t> rgb, std::int64_t width, std::int64_t height) {
  const auto row_bytes = static_cast<std::size_t>(width * 3), stride = (row_bytes + 3) / 4 * 4;
  if (rgb.size() != row_bytes * static_cast<std::size_t>(height)) throw std::runtime_error("bmp_of: size");
  std::string out = "BM";
  const auto put = [&](std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) out += static_cast<char>(value >> 8 * i & 255);
  };
  put(54 + stride * static_cast<std::size_t>(height), 4);
  put(0, 4);
  put(54, 4);
  put(40, 4);
  put(static_cast<std::uint64_t>(width), 4);
  put(static_cast<std::uint64_t>(height), 4);
  put(1, 2);
  put(24, 2);
  for (int i = 0; i < 6; ++i) put(0, 4);
  for (std::int64_t y = height - 1; y >= 0; --y) {
    const std::uint8_t* row = rgb.data() + static_cast<std::size_t>(y) * row_bytes;
    for (std::size_t x = 0; x < row_bytes; x += 3) {
      for (const std::size_t channel : {2U, 1U, 0U}) out += static_cast<char>(row[x + channel]);
    }
    out.append(stride - row_bytes, '\0');
  }
  return out;
}

}  // namespace clef::test
