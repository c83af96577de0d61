// The table of code points: utf8proc's data, brought to Unicode 16 in its categories and back to Unicode 9 in its
// combining classes.
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <map>
#include <span>

#include "text/unicode_composition.h"

namespace clef {
namespace {

struct CategoryRange {
  char32_t first, last;
  std::uint16_t bits;
};

// Letters, marks and numbers that Unicode 15.1 and 16.0 added; utf8proc 2.8 knows 15.0. No older code point changed
// between these three kinds or joined them. Derived from DerivedGeneralCategory.txt of Unicode 15.0 and 16.0.
constexpr CategoryRange kAddedByUnicode16[] = {
    {0x897, 0x897, kMark},       {0x1c89, 0x1c8a, kLetter},   {0xa7cb, 0xa7cd, kLetter},   {0xa7da, 0xa7dc, kLetter},
    {0x105c0, 0x105f3, kLetter}, {0x10d40, 0x10d49, kNumber}, {0x10d4a, 0x10d65, kLetter}, {0x10d69, 0x10d6d, kMark},
    {0x10d6f, 0x10d85, kLetter}, {0x10ec2, 0x10ec4, kLetter}, {0x10efc, 0x10efc, kMark},   {0x11380, 0x11389, kLetter},
    {0x1138b, 0x1138b, kLetter}, {0x1138e, 0x1138e, kLetter}, {0x11390, 0x113b5, kLetter}, {0x113b7, 0x113b7, kLetter},
    {0x113b8, 0x113c0, kMark},   {0x113c2, 0x113c2, kMark},   {0x113c5, 0x113c5, kMark},   {0x113c7, 0x113ca, kMark},
    {0x113cc, 0x113d0, kMark},   {0x113d1, 0x113d1, kLetter}, {0x113d2, 0x113d2, kMark},   {0x113d3, 0x113d3, kLetter},
    {0x113e1, 0x113e2, kMark},   {0x116d0, 0x116e3, kNumber}, {0x11bc0, 0x11be0, kLetter}, {0x11bf0, 0x11bf9, kNumber},
    {0x11f5a, 0x11f5a, kMark},   {0x13460, 0x143fa, kLetter}, {0x16100, 0x1611d, kLetter}, {0x1611e, 0x1612f, kMark},
    {0x16130, 0x16139, kNumber}, {0x16d40, 0x16d6c, kLetter}, {0x16d70, 0x16d79, kNumber}, {0x18cff, 0x18cff, kLetter},
    {0x1ccf0, 0x1ccf9, kNumber}, {0x1e5d0, 0x1e5ed, kLetter}, {0x1e5ee, 0x1e5ef, kMark},   {0x1e5f0, 0x1e5f0, kLetter},
    {0x1e5f1, 0x1e5fa, kNumber}, {0x2ebf0, 0x2ee5d, kLetter},
};

struct Range {
  char32_t first, last;
};

// Letters, marks and numbers of Unicode 17, which the reference does not know. They only matter beside a utf8proc that
// does. Derived as above from Unicode 16.0 and 17.0.
constexpr Range kAddedByUnicode17[] = {
    {0x88f, 0x88f},     {0xc5c, 0xc5c},     {0xcdc, 0xcdc},     {0x1acf, 0x1add},   {0x1ae0, 0x1aeb},
    {0xa7ce, 0xa7cf},   {0xa7d2, 0xa7d2},   {0xa7d4, 0xa7d4},   {0xa7f1, 0xa7f1},   {0x10940, 0x10959},
    {0x10ec5, 0x10ec7}, {0x10efa, 0x10efb}, {0x11b60, 0x11b67}, {0x11db0, 0x11ddb}, {0x11de0, 0x11de9},
    {0x16ea0, 0x16eb8}, {0x16ebb, 0x16ed3}, {0x16ff2, 0x16ff6}, {0x187f8, 0x187ff}, {0x18d09, 0x18d1e},
    {0x18d80, 0x18df2}, {0x1e6c0, 0x1e6de}, {0x1e6e0, 0x1e6f5}, {0x1e6fe, 0x1e6ff}, {0x2b73a, 0x2b73f},
    {0x2cea2, 0x2cead}, {0x323b0, 0x33479},
};

// Code points that Unicode 10 to 17 gave a combining class or a composition. To the reference's normalizer they are
// unknown: class 0, composing with nothing, so that they also stop the reordering of older marks around them.
constexpr Range kUnknownToNfc[] = {
    {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1add},   {0x1ae0, 0x1aeb},
    {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x105c9, 0x105c9}, {0x105d2, 0x105d2}, {0x105da, 0x105da},
    {0x105e4, 0x105e4}, {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac}, {0x10efa, 0x10efb},
    {0x10efd, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b},
    {0x11382, 0x11385}, {0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x11391}, {0x113b8, 0x113b8},
    {0x113bb, 0x113bb}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113c9}, {0x113ce, 0x113d0},
    {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11930}, {0x11935, 0x11935}, {0x11938, 0x11938},
    {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47},
    {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42},
    {0x1611e, 0x16129}, {0x1612f, 0x1612f}, {0x16d63, 0x16d63}, {0x16d67, 0x16d6a}, {0x16ff0, 0x16ff1},
    {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef},
    {0x1e5ee, 0x1e5ef}, {0x1e6e3, 0x1e6e3}, {0x1e6e6, 0x1e6e6}, {0x1e6ee, 0x1e6ef}, {0x1e6f5, 0x1e6f5},
};

constexpr Range kWhiteSpaceRanges[] = {{0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                                       {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                       {0x205f, 0x205f}, {0x3000, 0x3000}};

std::uint16_t category_bits(char32_t code_point) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    default:
      return 0;
  }
}

std::vector<std::uint16_t> all_entries() {
  constexpr std::uint16_t kCategories = kLetter | kMark | kNumber;
  std::vector<std::uint16_t> entries(UnicodeTable::kCodePoints);
  for (char32_t c = 0; c < UnicodeTable::kCodePoints; ++c) {
    const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
    entries[c] = static_cast<std::uint16_t>(category_bits(c) | (property->combining_class << 8));
  }
  const auto for_range = [&](const auto& range, auto&& change) {
    for (char32_t c = range.first; c <= range.last; ++c) change(entries[c]);
  };
  for (const Range& range : kAddedByUnicode17) {
    for_range(range, [&](std::uint16_t& entry) { entry &= static_cast<std::uint16_t>(~kCategories); });
  }
  for (const CategoryRange& range : kAddedByUnicode16) {
    for_range(range, [&](std::uint16_t& entry) { entry = (entry & 0xff00) | range.bits; });
  }
  for (const Range& range : kWhiteSpaceRanges) for_range(range, [](std::uint16_t& entry) { entry |= kWhiteSpace; });
  for (const char32_t c : {U'\r', U'\n'}) entries[c] |= kNewline;
  for (const Range& range : kUnknownToNfc) for_range(range, [](std::uint16_t& entry) { entry &= 0x00ff; });

  // NFC_Quick_Check, from the compositions themselves.
  const Composition& composition = Composition::instance();
  for (const char32_t c : composition.seconds()) entries[c] |= kNfcMayChange;
  for (const char32_t c : composition.replaced()) entries[c] |= kNfcMayChange;
  std::vector<char32_t> decomposed;
  for (char32_t c = 0; c < UnicodeTable::kCodePoints; ++c) {
    char32_t first = c;
    if (Composition::is_decomposable(c)) {
      decomposed.clear();
      Composition::append_decomposition(decomposed, c);
      first = decomposed.front();
    }
    const bool composes = composition.is_second(first);
    if (UnicodeTable::combining_class(entries[first]) == 0 && !composes) entries[c] |= kNfcBoundary;
  }
  return entries;
}

}  // namespace

bool is_unknown_to_nfc(char32_t code_point) {
  const auto* range = std::lower_bound(std::begin(kUnknownToNfc), std::end(kUnknownToNfc), code_point,
                                       [](const Range& r, char32_t c) { return r.last < c; });
  return range != std::end(kUnknownToNfc) && range->first <= code_point;
}

UnicodeTable::UnicodeTable() {
  constexpr std::size_t kPage = 256;
  const std::vector<std::uint16_t> all = all_entries();
  std::map<std::vector<std::uint16_t>, std::uint32_t> pages;
  for (std::size_t page = 0; page < page_start_.size(); ++page) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(page * kPage);
    std::vector<std::uint16_t> content(begin, begin + kPage);
    const auto [known, is_new] = pages.emplace(std::move(content), static_cast<std::uint32_t>(entries_.size()));
    if (is_new) entries_.insert(entries_.end(), begin, begin + kPage);
    page_start_[page] = known->second;
  }
}

const UnicodeTable& UnicodeTable::instance() {
  static const UnicodeTable table;
  return table;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | (c >> 6));
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3f));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

}  // namespace clef
