// Unicode as the models' tokenizers see it: general categories of Unicode 16, NFC by the rules of Unicode 9.
//
// Source: Hugging Face tokenizers 0.22, whose regular expressions carry the newer tables and whose normalizer the
// older.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace clef {

// What a code point is; bits of UnicodeTable's entries.
enum CodePointBits : std::uint16_t {
  kLetter = 1,        // \p{L}
  kMark = 2,          // \p{M}
  kNumber = 4,        // \p{N}
  kWhiteSpace = 8,    // \s: White_Space
  kNewline = 16,      // CR or LF
  kNfcBoundary = 32,  // nothing before it composes with it or is reordered past it
  kNfcMayChange = 64  // NFC_Quick_Check is not Yes: replaced by NFC, or may compose with what stands before it
};

// The bits of every code point, and in the upper byte its canonical combining class. Two stages: pages of 256 code
// points, equal pages stored once, so that what ordinary text needs stays in the first-level cache.
class UnicodeTable {
 public:
  // Built at first use, then constant.
  static const UnicodeTable& instance();

  static constexpr char32_t kCodePoints = 0x110000;

  // `code_point` < kCodePoints.
  std::uint16_t operator[](char32_t code_point) const {
    return entries_[page_start_[code_point >> 8] + (code_point & 0xff)];
  }
  static int combining_class(std::uint16_t entry) { return entry >> 8; }

 private:
  UnicodeTable();

  std::array<std::uint32_t, (kCodePoints >> 8)> page_start_;
  std::vector<std::uint16_t> entries_;
};

struct DecodedCodePoint {
  char32_t value;
  std::uint32_t bytes;  // at least 1
};

// The code point whose UTF-8 starts at text[at]. Never reads past the end; a byte that starts no whole code point below
// U+110000 reads as U+FFFD, one byte long.
inline DecodedCodePoint decode_utf8(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const auto tail = [&](std::size_t i) { return byte(i) & 0x3f; };
  const std::size_t left = text.size() - at;
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead >= 0xc0 && lead < 0xe0 && left >= 2) return {((lead & 0x1f) << 6) | tail(1), 2};
  if (lead >= 0xe0 && lead < 0xf0 && left >= 3) return {((lead & 0x0f) << 12) | (tail(1) << 6) | tail(2), 3};
  if (lead >= 0xf0 && lead < 0xf8 && left >= 4) {
    const char32_t value = ((lead & 0x07) << 18) | (tail(1) << 12) | (tail(2) << 6) | tail(3);
    if (value < UnicodeTable::kCodePoints) return {value, 4};
  }
  return {0xfffd, 1};
}

// Where the code point that ends before text[end] starts; 0 < end <= text.size().
inline std::size_t previous_code_point(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

void append_utf8(std::string& out, char32_t code_point);

// True when the text is certainly in normal form C already: the quick check of Unicode's annex 15. False may also mean
// that only a full normalisation could tell.
bool is_nfc(std::string_view text);

// Appends the normal form C of `text` (valid UTF-8). Linear in the text, whatever marks it holds.
void append_nfc(std::string& out, std::string_view text);

}  // namespace clef
