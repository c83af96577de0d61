#include "support/pictures.h"

#include <zlib.h>

#include <stdexcept>

#include "support/golden.h"

namespace clef::test {

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) out += i <= count ? kAlphabet[group >> (18 - 6 * i) & 63] : '=';
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

namespace {
std::string big_endian(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 255);
  return out;
}
}  // namespace

std::string png_chunk(std::string_view type, std::string_view data) {
  const std::string body = std::string(type) + std::string(data);
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body + big_endian(static_cast<std::uint32_t>(crc));
}

std::string png_of(const PngHeader& header, std::string_view chunks) {
  const std::string fields = big_endian(header.width) + big_endian(header.height) +
                             static_cast<char>(header.bit_depth) + static_cast<char>(header.colour_type) +
                             std::string(2, '\0') + static_cast<char>(header.interlaced ? 1 : 0);
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", fields) + std::string(chunks) + png_chunk("IEND", "");
}

std::string zlib_compressed(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), 9) != Z_OK) {
    throw std::runtime_error("zlib");
  }
  out.resize(size);
  return out;
}

}  // namespace clef::test
