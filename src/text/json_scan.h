// Skipping the plain bytes of a JSON string eight at a time.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace clef {

static_assert(std::endian::native == std::endian::little, "the lowest byte of a word must be the first in memory");

enum class HighBytes { plain, special };

// The first byte of [at, end) that is '"', '\', a control character below U+0020, or, if `high` says so, above 0x7F.
template <HighBytes high>
inline const char* skip_plain(const char* at, const char* end) {
  constexpr std::uint64_t kOnes = 0x0101010101010101U;
  constexpr std::uint64_t kTops = 0x8080808080808080U;
  while (end - at >= 8) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    // (x - n) & ~x has a byte's top bit set when the byte is below n; a borrow can only mark bytes after a true find.
    const std::uint64_t quote = word ^ (kOnes * '"');
    const std::uint64_t backslash = word ^ (kOnes * '\\');
    std::uint64_t special =
        ((quote - kOnes) & ~quote) | ((backslash - kOnes) & ~backslash) | ((word - kOnes * 0x20) & ~word);
    if constexpr (high == HighBytes::special) special |= word;
    special &= kTops;
    if (special != 0) return at + std::countr_zero(special) / 8;
    at += 8;
  }
  for (; at != end; ++at) {
    const auto byte = static_cast<unsigned char>(*at);
    if (byte < 0x20 || byte == '"' || byte == '\\' || (high == HighBytes::special && byte >= 0x80)) break;
  }
  return at;
}

}  // namespace clef
