#include "media/base64.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace clef {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint32_t kInvalid = 1U << 24;  // above the 24 bits of four characters

// For each of four places: what a character adds to the group's 24 bits. Four loads and three ors a group.
using Table = std::array<std::uint32_t, 256>;
constexpr Table make_table(int shift) {
  Table table{};
  for (std::uint32_t& entry : table) entry = kInvalid;
  for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
    table[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint32_t>(i) << shift;
  }
  return table;
}
constexpr Table kFirst = make_table(18), kSecond = make_table(12), kThird = make_table(6), kFourth = make_table(0);

std::uint32_t group(const unsigned char* in) { return kFirst[in[0]] | kSecond[in[1]] | kThird[in[2]] | kFourth[in[3]]; }

Error bad_base64(std::string_view what) { return {Errc::bad_request, std::string(what)}; }

}  // namespace

Result<std::vector<std::uint8_t>> decode_base64(std::string_view text, std::size_t max_bytes) {
  if (text.size() % 4 != 0) return bad_base64("base64 length is not a multiple of 4 (padding required)");
  std::size_t padding = 0;
  while (padding < 3 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  if (padding == 3) return bad_base64("invalid base64 padding");
  const std::size_t bytes = max_decoded_base64(text.size()) - padding;
  if (bytes > max_bytes) {
    return Error{Errc::too_large,
                 fmt::format("encoded data of {} bytes exceeds the limit of {} bytes", bytes, max_bytes)};
  }

  std::vector<std::uint8_t> out(bytes);
  const auto* in = reinterpret_cast<const unsigned char*>(text.data());
  const std::size_t whole = text.size() / 4 - (padding > 0 ? 1 : 0);
  std::uint8_t* to = out.data();
  std::uint32_t invalid = 0;
  for (std::size_t i = 0; i < whole; ++i, in += 4, to += 3) {
    const std::uint32_t bits = group(in);
    invalid |= bits;
    to[0] = static_cast<std::uint8_t>(bits >> 16);
    to[1] = static_cast<std::uint8_t>(bits >> 8);
    to[2] = static_cast<std::uint8_t>(bits);
  }
  if (padding > 0) {
    const std::uint32_t bits = kFirst[in[0]] | kSecond[in[1]] | (padding == 1 ? kThird[in[2]] : 0);
    invalid |= bits;
    to[0] = static_cast<std::uint8_t>(bits >> 16);
    if (padding == 1) to[1] = static_cast<std::uint8_t>(bits >> 8);
  }
  if ((invalid & kInvalid) == 0) return out;
  const std::size_t misplaced = text.substr(0, text.size() - padding).find('=');
  return bad_base64(misplaced == std::string_view::npos ? "invalid base64 character" : "invalid base64 padding");
}

void append_base64(std::string& out, std::span<const std::uint8_t> bytes) {
  out.reserve(out.size() + (bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < count; ++i) bits |= std::uint32_t{bytes[at + i]} << (16 - 8 * i);
    for (std::size_t i = 0; i < 4; ++i) out += i <= count ? kAlphabet[bits >> (18 - 6 * i) & 63] : '=';
  }
}

}  // namespace clef
