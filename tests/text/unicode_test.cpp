#include "text/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>
#include <set>

#include "text/unicode_composition.h"

namespace clef {
namespace {

std::string utf8(const std::vector<char32_t>& code_points) {
  std::string text;
  for (const char32_t c : code_points) append_utf8(text, c);
  return text;
}

std::string nfc(const std::string& text) {
  std::string out;
  append_nfc(out, text);
  return out;
}

std::size_t count_with(std::uint16_t bit) {
  const UnicodeTable& table = UnicodeTable::instance();
  std::size_t count = 0;
  for (char32_t c = 0; c < UnicodeTable::kCodePoints; ++c) count += (table[c] & bit) != 0;
  return count;
}

// Source: the reference's regular expressions, over every code point.
TEST(Unicode, CategoriesAreThoseOfUnicode16) {
  EXPECT_EQ(count_with(kLetter), 141028U);
  EXPECT_EQ(count_with(kMark), 2501U);
  EXPECT_EQ(count_with(kNumber), 1911U);
  const UnicodeTable& table = UnicodeTable::instance();
  EXPECT_TRUE(table[0x1c89] & kLetter);   // Unicode 16
  EXPECT_TRUE(table[0x2ebf0] & kLetter);  // Unicode 15.1
  EXPECT_TRUE(table[0x16130] & kNumber);  // Unicode 16
  EXPECT_TRUE(table[0x897] & kMark);      // Unicode 16
  EXPECT_FALSE(table[0x88f] & kLetter);   // Unicode 17
  EXPECT_FALSE(table[0x10ffff] & (kLetter | kMark | kNumber | kWhiteSpace));
}

TEST(Unicode, WhiteSpaceIsTheListedTwentyFive) {
  const std::set<char32_t> expected = {0x9,    0xa,    0xb,    0xc,    0xd,    0x20,   0x85,   0xa0,   0x1680,
                                       0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008,
                                       0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000};
  const UnicodeTable& table = UnicodeTable::instance();
  for (char32_t c = 0; c < UnicodeTable::kCodePoints; ++c) {
    EXPECT_EQ((table[c] & kWhiteSpace) != 0, expected.contains(c)) << std::uint32_t{c};
    EXPECT_EQ((table[c] & kNewline) != 0, c == '\r' || c == '\n') << std::uint32_t{c};
  }
}

TEST(Unicode, DecodesWhatItEncodes) {
  for (const char32_t c : {0x0U, 0x7fU, 0x80U, 0x7ffU, 0x800U, 0xd7ffU, 0xe000U, 0xffffU, 0x10000U, 0x10ffffU}) {
    const std::string text = utf8({U'a', c});
    const DecodedCodePoint decoded = decode_utf8(text, 1);
    EXPECT_EQ(decoded.value, c);
    EXPECT_EQ(decoded.bytes, text.size() - 1);
    EXPECT_EQ(previous_code_point(text, text.size()), 1U);
  }
}

TEST(Unicode, DecodesNothingPastTheEnd) {
  for (const std::string text : {"\xc3", "\xe3\x81", "\xf0\x9f\x98", "\x80", "\xff", "\xf7\xbf\xbf\xbf"}) {
    EXPECT_EQ(decode_utf8(text, 0).value, char32_t{0xfffd});
    EXPECT_EQ(decode_utf8(text, 0).bytes, 1U);
  }
}

struct NfcCase {
  const char* name;
  std::string text, expected;
};

TEST(Nfc, ComposesAsUnicode9Does) {
  const NfcCase cases[] = {
      {"empty", "", ""},
      {"ASCII", "plain", "plain"},
      {"base and mark", "e\u0301", "\u00e9"},
      {"composed stays", "\u00e9", "\u00e9"},
      {"two marks, the lower class first", "s\u0307\u0323", "\u1e69"},
      {"composed, then a mark of a lower class", "\u1e61\u0323", "\u1e69"},
      {"a mark in between that does not block", "a\u0316\u0301", "\u00e1\u0316"},
      {"a mark of the same class blocks", "a\u0305\u0301", "a\u0305\u0301"},
      {"a starter blocks", "a\u00ad\u0301", "a\u00ad\u0301"},
      {"singleton", "\u212b\u2126\uf900", "\u00c5\u03a9\u8c48"},
      {"exclusion", "\u0958", "\u0915\u093c"},
      {"exclusion does not compose", "\u0915\u093c", "\u0915\u093c"},
      {"non-starter decomposition", "\u0344", "\u0308\u0301"},
      {"Hangul leading, vowel, trailing", "\u1100\u1161\u11a8", "\uac01"},
      {"Hangul syllable and trailing", "\uac00\u11a8", "\uac01"},
      {"Hangul syllable that has its trailing", "\uac01\u11a8", "\uac01\u11a8"},
      {"Hangul with a mark between", "\u1100\u0300\u1161", "\u1100\u0300\u1161"},
      {"kana with its voicing mark", "\u304b\u3099", "\u304c"},
      {"first of the text is a mark", "\u0301e", "\u0301e"},
      {"symbol and mark", "=\u0338<\u0338", "\u2260\u226e"},
      // Later than Unicode 9: class 0 and no composition.
      {"a mark of Unicode 10 keeps its place", "a\u1df8\u0316", "a\u1df8\u0316"},
      {"and blocks", "e\u1df8\u0301", "e\u1df8\u0301"},
      {"and stops reordering", "e\u0301\u08ce\u0316", "\u00e9\u08ce\u0316"},
      {"and a composition of Unicode 13", "\U00011935\U00011930", "\U00011935\U00011930"},
  };
  for (const auto& [name, text, expected] : cases) {
    EXPECT_EQ(nfc(text), expected) << name;
    EXPECT_EQ(nfc(expected), expected) << name;
    EXPECT_TRUE(!is_nfc(text) || text == expected) << name;
  }
}

// utf8proc normalises by its own algorithm; it differs only where Unicode is newer than 9.
TEST(Nfc, AgreesWithUtf8procOnRandomMarks) {
  std::vector<char32_t> pool;
  for (char32_t c = 0x80; c < 0x30000; ++c) {
    const bool takes_part = utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class != 0 ||
                            Composition::is_decomposable(c) || Composition::instance().is_second(c);
    const bool is_sampled = c < 0x3000 || c % 50 == 0;
    if (takes_part && is_sampled && !is_unknown_to_nfc(c) && (c < 0xd800 || c > 0xdfff)) pool.push_back(c);
  }
  for (char32_t c = 'a'; c <= 'z'; ++c) pool.insert(pool.end(), 20, c);
  std::mt19937 random(7);
  for (int i = 0; i < 50000; ++i) {
    std::vector<char32_t> code_points(1 + random() % 30);
    for (char32_t& c : code_points) c = pool[random() % pool.size()];
    const std::string text = utf8(code_points);
    auto* expected = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
    const std::string got = nfc(text);
    ASSERT_EQ(got, reinterpret_cast<const char*>(expected)) << text;
    ASSERT_TRUE(!is_nfc(text) || got == text);
    std::free(expected);
  }
}

// A million marks on one letter, of falling classes: sorting them pair by pair would take hours.
TEST(Nfc, ALongRunOfMarksIsSortedInLinearTime) {
  constexpr std::size_t kMarks = 1000000;
  std::string text = "a", below, above;
  for (std::size_t i = 0; i < kMarks; ++i) {
    text += i % 2 == 0 ? "\u0305" : "\u0316";  // classes 230 and 220
    (i % 2 == 0 ? above : below) += i % 2 == 0 ? "\u0305" : "\u0316";
  }
  EXPECT_EQ(nfc(text), "a" + below + above);
}

}  // namespace
}  // namespace clef
