#include "text/tokenizer_split.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace clef {
namespace {

std::vector<std::string> words(SplitPattern pattern, std::string_view text) {
  std::string normalized;
  append_nfc(normalized, text);
  const Splitter splitter(pattern);
  std::vector<std::string> result;
  for (std::size_t at = 0; at < normalized.size();) {
    const std::size_t end = splitter.word_end(normalized, at);
    result.push_back(normalized.substr(at, end - at));
    at = end;
  }
  return result;
}

std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> parts = {
      "a",      "B",          "1",      "\u0664", " ",      "\n",     "\r",     "\t",     ".",       "'",
      "s",      "\u017f",     "\u00e9", "e",      "\u0301", "\u0316", "\u0903", "\u0e31", "\u093c",  "\u0915",
      "\u0958", "\u1100",     "\u1161", "\u11a8", "\u2126", "\u1fef", "=",      "\u0338", "\u00a0",  "\u2028",
      "\uff0c", "\U0001f600", "\u4e2d", "\u1df8", "\u0344", "\u20e3", "\u200d", "\u0f73", "\u11935", "\u0340"};
  std::string text;
  for (std::size_t count = random() % 12; count > 0; --count) text += parts[random() % parts.size()];
  return text;
}

TEST(Splitter, ASafeCutKeepsTheWordsOfBothSides) {
  std::mt19937 random(21);
  std::size_t num_cuts = 0;
  for (int i = 0; i < 60000; ++i) {
    const std::string text = random_text(random);
    for (std::size_t end = 1; end < text.size(); ++end) {
      const std::size_t cut = last_safe_cut(text, 0, end);
      ASSERT_LE(cut, end);
      if (cut == 0) continue;
      ++num_cuts;
      for (const SplitPattern pattern : {SplitPattern::qwen2, SplitPattern::qwen35}) {
        std::vector<std::string> parts = words(pattern, text.substr(0, cut));
        for (std::string& word : words(pattern, text.substr(cut))) parts.push_back(std::move(word));
        ASSERT_EQ(parts, words(pattern, text)) << text << ", cut at byte " << cut;
      }
    }
  }
  EXPECT_GT(num_cuts, 100000U);
}

TEST(Splitter, FindsTheLastCut) {
  const std::string text = "one two, 345 \u4e2d\u6587\uff0c\u4e2d ...";
  EXPECT_EQ(last_safe_cut(text, 0, 2), 0U);    // inside a word
  EXPECT_EQ(last_safe_cut(text, 0, 3), 3U);    // before a space after a letter
  EXPECT_EQ(last_safe_cut(text, 0, 6), 3U);    // the last one before
  EXPECT_EQ(last_safe_cut(text, 3, 6), 3U);    // none after 3
  EXPECT_EQ(last_safe_cut(text, 0, 8), 7U);    // a comma goes with what follows
  EXPECT_EQ(last_safe_cut(text, 0, 10), 10U);  // after a digit, whatever follows
  EXPECT_EQ(last_safe_cut(text, 0, 20), 19U);  // not inside a character, nor before it is over
  EXPECT_EQ(last_safe_cut(text, 0, text.size()), text.size());
  EXPECT_EQ(last_safe_cut(text, text.size() - 3, text.size() - 1), text.size() - 3);
}

TEST(Splitter, ContractionsFoldCase) {
  using Words = std::vector<std::string>;
  for (const SplitPattern pattern : {SplitPattern::qwen2, SplitPattern::qwen35}) {
    EXPECT_EQ(words(pattern, "I'LL'Re'vE'\u017f'd'm'tx'rx'"),
              (Words{"I", "'LL", "'Re", "'vE", "'\u017f", "'d", "'m", "'t", "x", "'rx", "'"}));
    EXPECT_EQ(words(pattern, "it\u2019s"), (Words{"it", "\u2019s"}));
    EXPECT_EQ(words(pattern, "''s"), (Words{"''", "s"}));  // two are punctuation, and that takes all it can
  }
}

TEST(Splitter, WhiteSpaceGivesItsLastToTheNextWord) {
  using Words = std::vector<std::string>;
  for (const SplitPattern pattern : {SplitPattern::qwen2, SplitPattern::qwen35}) {
    EXPECT_EQ(words(pattern, "a   b"), (Words{"a", "  ", " b"}));
    EXPECT_EQ(words(pattern, "a   "), (Words{"a", "   "}));
    EXPECT_EQ(words(pattern, "a \t\n  b"), (Words{"a", " \t\n", " ", " b"}));
    EXPECT_EQ(words(pattern, " 1"), (Words{" ", "1"}));
    EXPECT_EQ(words(pattern, "\u3000\u3000."), (Words{"\u3000", "\u3000", "."}));
    EXPECT_EQ(words(pattern, "\n\n \r x"), (Words{"\n\n \r", " x"}));
    EXPECT_EQ(words(pattern, "!\n\n x"), (Words{"!\n\n", " x"}));
  }
}

}  // namespace
}  // namespace clef
