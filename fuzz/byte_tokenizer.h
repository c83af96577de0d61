// A tokenizer with one token a byte, for harnesses: small, fast, and nothing is hidden by merges.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "text/tokenizer.h"

namespace clef {

inline constexpr std::int32_t kFirstControl = 256;  // ids of the added tokens, in order

// The character that stands for a byte in a vocabulary: itself when it is visible Latin-1, else the next free one from
// U+0100. Source: bytes_to_unicode, GPT-2's encoder.py.
inline std::string byte_symbol(int byte) {
  const auto visible = [](int b) { return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; };
  int point = byte;
  if (!visible(byte)) {
    point = 0x100;
    for (int b = 0; b < byte; ++b) point += visible(b) ? 0 : 1;
  }
  if (point < 0x80) return {static_cast<char>(point)};
  return {static_cast<char>(0xC0 | point >> 6), static_cast<char>(0x80 | (point & 0x3F))};
}

inline Tokenizer byte_tokenizer(std::initializer_list<std::string_view> controls) {
  TokenizerDefinition definition;
  for (int byte = 0; byte < 256; ++byte) definition.tokens.push_back(byte_symbol(byte));
  for (const std::string_view control : controls) {
    definition.added_tokens.push_back(
        {static_cast<std::int32_t>(definition.tokens.size()), std::string(control), true});
    definition.tokens.emplace_back(control);
  }
  auto tokenizer = Tokenizer::create(std::move(definition));
  CHECK(tokenizer.has_value(), "{}", tokenizer.error().message);
  return std::move(tokenizer).value();
}

}  // namespace clef
