#include "text/unicode_composition.h"

#include <utf8proc.h>

#include <array>
#include <span>

#include "base/check.h"
#include "text/unicode.h"

namespace clef {
namespace {

// Hangul syllables are composed by arithmetic: The Unicode Standard, section 3.12.
constexpr char32_t kFirstSyllable = 0xac00, kFirstLeading = 0x1100, kFirstVowel = 0x1161, kBeforeTrailing = 0x11a7;
constexpr char32_t kLeadings = 19, kVowels = 21, kTrailings = 28;  // the trailing count includes "none"
constexpr char32_t kSyllables = kLeadings * kVowels * kTrailings;

bool is_syllable(char32_t c) { return c >= kFirstSyllable && c < kFirstSyllable + kSyllables; }

std::uint64_t pair_key(char32_t first, char32_t second) { return (static_cast<std::uint64_t>(first) << 32) | second; }

// utf8proc's own composition of a few code points that are decomposed and in order.
std::vector<char32_t> library_composition(std::span<const char32_t> text) {
  std::vector<utf8proc_int32_t> buffer(text.begin(), text.end());
  buffer.push_back(0);  // utf8proc terminates its result
  const auto size = utf8proc_normalize_utf32(buffer.data(), static_cast<utf8proc_ssize_t>(text.size()),
                                             static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  CHECK(size > 0, "utf8proc: {}", size);
  return {buffer.begin(), buffer.begin() + size};
}

}  // namespace

bool Composition::is_decomposable(char32_t c) {
  if (is_syllable(c)) return true;
  const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  // decomp_type 0 is canonical; the others are compatibility.
  return property->decomp_seqindex != UINT16_MAX && property->decomp_type == 0 && !is_unknown_to_nfc(c);
}

void Composition::append_decomposition(std::vector<char32_t>& out, char32_t c) {
  if (!is_decomposable(c)) {
    out.push_back(c);
    return;
  }
  std::array<utf8proc_int32_t, 8> parts;  // Unicode's longest canonical decomposition has 4
  int last_boundary_class = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(),
                                             static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE),
                                             &last_boundary_class);
  CHECK(count > 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()), "U+{:04X}: {}", std::uint32_t{c}, count);
  for (utf8proc_ssize_t i = 0; i < count; ++i) out.push_back(static_cast<char32_t>(parts[static_cast<std::size_t>(i)]));
}

Composition::Composition() {
  std::vector<char32_t> parts;
  for (char32_t c = 0; c < UnicodeTable::kCodePoints; ++c) {
    if (is_syllable(c) || !is_decomposable(c)) continue;
    parts.clear();
    append_decomposition(parts, c);
    if (library_composition(parts) != std::vector<char32_t>{c}) {  // a singleton, an exclusion or a non-starter
      replaced_.push_back(c);
      continue;
    }
    const char32_t second = parts.back();
    parts.pop_back();
    const std::vector<char32_t> first = library_composition(parts);
    CHECK(first.size() == 1, "U+{:04X}", std::uint32_t{c});
    composites_.emplace(pair_key(first[0], second), c);
    seconds_.insert(second);
  }
  for (char32_t i = 0; i < kVowels; ++i) seconds_.insert(kFirstVowel + i);
  for (char32_t i = 1; i < kTrailings; ++i) seconds_.insert(kBeforeTrailing + i);
}

const Composition& Composition::instance() {
  static const Composition composition;
  return composition;
}

char32_t Composition::compose(char32_t first, char32_t second) const {
  // A subtraction below zero wraps to a huge number, so one comparison tests both ends of a range.
  const char32_t leading = first - kFirstLeading, vowel = second - kFirstVowel;
  if (leading < kLeadings && vowel < kVowels) return kFirstSyllable + (leading * kVowels + vowel) * kTrailings;
  const char32_t syllable = first - kFirstSyllable, trailing = second - kBeforeTrailing;
  if (syllable < kSyllables && syllable % kTrailings == 0 && trailing - 1 < kTrailings - 1) return first + trailing;
  const auto found = composites_.find(pair_key(first, second));
  return found == composites_.end() ? 0 : found->second;
}

}  // namespace clef
