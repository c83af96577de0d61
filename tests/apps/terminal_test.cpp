#include "clef/terminal.h"

#include <gtest/gtest.h>

namespace clef::cli {
namespace {

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("Zürich"), 6);
  EXPECT_EQ(display_width("日本"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);
}

TEST(Fitted, LeavesWhatFits) {
  EXPECT_EQ(fitted("abcde", 5, true), "abcde");
  EXPECT_EQ(fitted("日本", 4, true), "日本");
}

TEST(Fitted, CutsWithAnEllipsis) {
  EXPECT_EQ(fitted("abcdef", 5, true), "abcd…");
  EXPECT_EQ(fitted("abcdef", 5, false), "ab...");
  EXPECT_EQ(fitted("日本語", 5, true), "日本…");
  EXPECT_EQ(fitted("日本語", 4, true), "日…");
}

TEST(Fitted, NeverTakesMoreColumnsThanGiven) {
  const std::string text = "naïve 日本語 e\u0301 text\twith\n\nall kinds";
  for (std::int64_t columns = 3; columns < 45; ++columns) {
    EXPECT_LE(display_width(fitted(text, columns, true)), columns);
    EXPECT_LE(display_width(fitted(text, columns, false)), columns);
  }
}

TEST(Fitted, MakesOneLineOfMany) { EXPECT_EQ(fitted("  a\r\n\tb  c \n", 20, true), "a b c"); }

TEST(Fitted, TrailingSpaceCostsNoEllipsis) { EXPECT_EQ(fitted("abcde\n", 5, true), "abcde"); }

TEST(Fitted, LetsNothingSteerTheTerminal) {
  EXPECT_EQ(fitted("\x1b[31mred\x07", 20, true), "?[31mred?");
  EXPECT_EQ(fitted("a\u009bb\u202ec\u2028d\u200be", 20, true), "a?b?c?d?e");
  EXPECT_EQ(fitted("bad\xff\xc3", 20, true), "bad??");
}

TEST(Fitted, KeepsToAsciiWhereTheTerminalDoes) { EXPECT_EQ(fitted("Zürich 日", 20, false), "Z?rich ?"); }

TEST(Padded, FillsToColumns) {
  EXPECT_EQ(padded("ü", 3), "ü  ");
  EXPECT_EQ(padded("abcd", 3), "abcd");
}

}  // namespace
}  // namespace clef::cli
