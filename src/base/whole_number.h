// Whole decimal numbers as people type them.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace clef {

// Digits from first to last, and nothing else: "8", not "+8", "0x8", "8.0" or "". A typo must not become another
// number.
inline std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t first, std::int64_t last) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < first || number > last) return std::nullopt;
  return number;
}

}  // namespace clef
