// Normal form C: Unicode's annex 15, over the stretches that need it.
#include <algorithm>
#include <array>
#include <span>

#include "text/unicode.h"
#include "text/unicode_composition.h"

namespace clef {
namespace {

// utf8proc's own reordering swaps neighbours, which is quadratic in a run of marks; this is linear, and stable as the
// standard demands.
class MarkSorter {
 public:
  explicit MarkSorter(const UnicodeTable& table) : table_(table) {}

  // Sorts each run of code points with a non-zero combining class by that class.
  void sort_runs(std::span<char32_t> text) {
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t end = begin;
      while (end < text.size() && combining_class(text[end]) != 0) ++end;
      if (end - begin > 1) sort(text.subspan(begin, end - begin));
      begin = end + 1;
    }
  }

 private:
  int combining_class(char32_t c) const { return UnicodeTable::combining_class(table_[c]); }

  void sort(std::span<char32_t> marks) {
    constexpr std::size_t kShort = 16;  // ordinary text has one to three; counting 256 classes pays off beyond this
    if (marks.size() <= kShort) {
      for (std::size_t i = 1; i < marks.size(); ++i) {
        const char32_t mark = marks[i];
        std::size_t at = i;
        for (; at > 0 && combining_class(marks[at - 1]) > combining_class(mark); --at) marks[at] = marks[at - 1];
        marks[at] = mark;
      }
      return;
    }
    std::array<std::size_t, 257> next{};  // where the next mark of a class goes
    for (const char32_t mark : marks) ++next[static_cast<std::size_t>(combining_class(mark)) + 1];
    for (std::size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
    sorted_.resize(marks.size());
    for (const char32_t mark : marks) sorted_[next[static_cast<std::size_t>(combining_class(mark))]++] = mark;
    std::copy(sorted_.begin(), sorted_.end(), marks.begin());
  }

  const UnicodeTable& table_;
  std::vector<char32_t> sorted_;
};

// Composes a decomposed and ordered text in place.
void compose(std::vector<char32_t>& text, const UnicodeTable& table) {
  const Composition& composition = Composition::instance();
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::size_t kept = 0;
  std::size_t starter = kNone;  // the last kept code point of class 0
  int last_class = 0;           // of the last kept code point after the starter; 0 when there is none
  for (const char32_t c : text) {
    const std::uint16_t entry = table[c];
    const int combining_class = UnicodeTable::combining_class(entry);
    const bool is_blocked = starter == kNone || (last_class != 0 && last_class >= combining_class);
    if (!is_blocked && (entry & kNfcMayChange)) {
      if (const char32_t composite = composition.compose(text[starter], c)) {
        text[starter] = composite;
        continue;
      }
    }
    if (combining_class == 0) starter = kept;
    last_class = combining_class;
    text[kept++] = c;
  }
  text.resize(kept);
}

// Walks a text by the quick check: up to the first code point that makes it fail.
struct QuickCheck {
  const UnicodeTable& table = UnicodeTable::instance();
  std::size_t boundary = 0;  // start of the last code point read that nothing before it can touch
  int last_class = 0;

  // Reads on from `at`; returns the offset of the code point that fails, text.size() when none does.
  std::size_t advance(std::string_view text, std::size_t at) {
    while (at < text.size()) {
      if (static_cast<unsigned char>(text[at]) < 0x80) {
        boundary = at++;
        last_class = 0;
        continue;
      }
      const DecodedCodePoint c = decode_utf8(text, at);
      const std::uint16_t entry = table[c.value];
      const int combining_class = UnicodeTable::combining_class(entry);
      if (entry & kNfcBoundary) boundary = at;
      if ((entry & kNfcMayChange) || (combining_class != 0 && combining_class < last_class)) return at;
      last_class = combining_class;
      at += c.bytes;
    }
    return text.size();
  }
};

}  // namespace

bool is_nfc(std::string_view text) { return QuickCheck().advance(text, 0) == text.size(); }

void append_nfc(std::string& out, std::string_view text) {
  const UnicodeTable& table = UnicodeTable::instance();
  MarkSorter sorter(table);
  std::vector<char32_t> stretch;
  QuickCheck check;
  std::size_t copied = 0;
  for (std::size_t at = 0; (at = check.advance(text, at)) < text.size();) {
    // The code points from the last boundary to the next are normalised on their own; nothing reaches across either.
    out.append(text.substr(copied, check.boundary - copied));
    stretch.clear();
    for (at = check.boundary; at < text.size();) {
      const DecodedCodePoint c = decode_utf8(text, at);
      if (at != check.boundary && (table[c.value] & kNfcBoundary)) break;
      Composition::append_decomposition(stretch, c.value);
      at += c.bytes;
    }
    sorter.sort_runs(stretch);
    compose(stretch, table);
    for (const char32_t c : stretch) append_utf8(out, c);
    copied = check.boundary = at;
    check.last_class = 0;
  }
  out.append(text.substr(copied));
}

}  // namespace clef
