#include "text/tokenizer_split.h"

namespace clef {
namespace {

struct Length {
  std::size_t bytes;
  std::uint16_t bits;  // of the code point
};

Length code_point_at(std::string_view text, std::size_t at, const UnicodeTable& table) {
  const DecodedCodePoint c = decode_utf8(text, at);
  return {c.bytes, table[c.value]};
}

// End of the run from `at` of code points for which (bits & mask) != 0 is `wanted`.
std::size_t run_end(std::string_view text, std::size_t at, std::uint16_t mask, bool wanted, const UnicodeTable& table) {
  while (at < text.size()) {
    const auto [bytes, bits] = code_point_at(text, at, table);
    if (((bits & mask) != 0) != wanted) break;
    at += bytes;
  }
  return at;
}

// Bytes of 's 't 're 've 'm 'll 'd after the apostrophe at text[at], in either case; 0 when there is none. Oniguruma
// folds the long s (U+017F) to s; no other code point outside ASCII folds to one of these letters alone.
std::size_t contraction_bytes(std::string_view text, std::size_t at) {
  const auto lower = [&](std::size_t i) {
    return i < text.size() ? static_cast<char>(static_cast<unsigned char>(text[i]) | 0x20) : '\0';
  };
  const char first = lower(at + 1), second = lower(at + 2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return 3;
  if (text.substr(at + 1, 2) == "\u017f") return 3;
  return 0;
}

}  // namespace

std::string_view regex_of(SplitPattern pattern) {
  switch (pattern) {
    case SplitPattern::qwen2:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case SplitPattern::qwen35:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  return {};
}

Splitter::Splitter(SplitPattern pattern)
    : table_(UnicodeTable::instance()),
      word_(pattern == SplitPattern::qwen35 ? kLetter | kMark : kLetter),
      not_other_(static_cast<std::uint16_t>(kWhiteSpace | kNumber | word_)) {}

std::size_t Splitter::word_end(std::string_view text, std::size_t begin) const {
  const auto first = code_point_at(text, begin, table_);
  const std::size_t second = begin + first.bytes;

  // [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+, the commonest case: a letter here.
  if (first.bits & kLetter) return run_end(text, second, word_, true, table_);
  // (?i:'s|'t|'re|'ve|'m|'ll|'d)
  if (text[begin] == '\'') {
    if (const std::size_t bytes = contraction_bytes(text, begin)) return begin + bytes;
  }
  // [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+ with something else before the letters, or a mark alone.
  if (!(first.bits & (kNewline | kNumber))) {
    const std::size_t end = run_end(text, second, word_, true, table_);
    if (end > second || (first.bits & word_)) return end;
  }
  // \p{N}
  if (first.bits & kNumber) return second;
  // " ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
  const std::size_t others = text[begin] == ' ' ? second : begin;
  if (const std::size_t end = run_end(text, others, not_other_, false, table_); end > others) {
    return run_end(text, end, kNewline, true, table_);
  }
  // What is left is white space: up to its last newline, \s*[\r\n]+, ...
  std::size_t end = begin, last = begin, after_newline = begin;
  while (end < text.size()) {
    const auto [bytes, bits] = code_point_at(text, end, table_);
    if (!(bits & kWhiteSpace)) break;
    last = end;
    end += bytes;
    if (bits & kNewline) after_newline = end;
  }
  if (after_newline > begin) return after_newline;
  // ... else all of it at the end of the text, all but the last before a word, \s+(?!\S), or the last alone, \s+.
  return end == text.size() || last == begin ? end : last;
}

std::size_t last_safe_cut(std::string_view text, std::size_t begin, std::size_t end) {
  if (end >= text.size()) return text.size();
  const UnicodeTable& table = UnicodeTable::instance();
  while (end > begin && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  std::uint16_t next = code_point_at(text, end, table).bits;
  while (end > begin) {
    // A number is always a word of its own; a letter's word ends before whatever is neither letter nor mark. The code
    // points on both sides are their own normal form and nothing joins across.
    const std::size_t start = previous_code_point(text, end);
    const std::uint16_t previous = code_point_at(text, start, table).bits;
    const bool is_steady = !((previous | next) & kNfcMayChange) && (next & kNfcBoundary);
    if (is_steady && ((previous & kNumber) || ((previous & kLetter) && !(next & (kLetter | kMark))))) return end;
    end = start;
    next = previous;
  }
  return begin;
}

}  // namespace clef
