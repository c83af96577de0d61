#include "clef/ask.h"

#include <gtest/gtest.h>

namespace clef::cli {
namespace {

// The question as `"ID":{...}`.
std::string read(std::string_view text) {
  const auto question = parse_question(text);
  EXPECT_TRUE(question) << question.error().message;
  if (!question) return "";
  std::string json = to_compact_json(Json::Object{*question});
  return json.substr(1, json.size() - 2);
}

std::string refusal(std::string_view text) {
  const auto question = parse_question(text);
  EXPECT_FALSE(question) << read(text);
  if (question) return "";
  EXPECT_EQ(question.error().code, Errc::bad_request);
  return question.error().message;
}

TEST(Ask, ReadsAYesOrNoQuestion) {
  EXPECT_EQ(read("outage: Is this an outage?"), R"("outage":{"type":"noul","instructions":"Is this an outage?"})");
  EXPECT_EQ(read("outage:Is it?"), R"("outage":{"type":"noul","instructions":"Is it?"})");
  EXPECT_EQ(read("  down now \t:  Is it?\n"), R"("down now":{"type":"noul","instructions":"Is it?"})");
}

TEST(Ask, LetsTheIdBeTheText) {
  EXPECT_EQ(read("Is this an outage?"), R"("Is this an outage?":{"type":"noul"})");
  EXPECT_EQ(read("team = web | data"), R"("team":{"type":"choice","criteria":{"web":null,"data":null}})");
  EXPECT_EQ(read("size = small < large"), R"("size":{"type":"score","criteria":["small","large"]})");
}

TEST(Ask, ReadsAChoiceInTheOrderOfItsOptions) {
  EXPECT_EQ(read("team = web | payments|data : Who should take it?"),
            R"("team":{"type":"choice","instructions":"Who should take it?",)"
            R"("criteria":{"web":null,"payments":null,"data":null}})");
}

TEST(Ask, ReadsDescriptionsInParentheses) {
  EXPECT_EQ(read("intent = refund (wants: money | goods (back) = all, a<b) | track( where is it ) | other: What?"),
            R"("intent":{"type":"choice","instructions":"What?","criteria":{)"
            R"("refund":"wants: money | goods (back) = all, a<b","track":"where is it","other":null}})");
}

TEST(Ask, ReadsLevelsFromTheLowest) {
  EXPECT_EQ(read("urgency = whenever < this week < now: How urgent?"),
            R"("urgency":{"type":"score","instructions":"How urgent?","criteria":["whenever","this week","now"]})");
  // A level has no description beside itself, so its parentheses are text; what they hold is plain all the same.
  EXPECT_EQ(read("size = small (under 9:00) < large (a < b | c)"),
            R"q("size":{"type":"score","criteria":["small (under 9:00)","large (a < b | c)"]})q");
}

TEST(Ask, TakesTheTextAsItStands) {
  EXPECT_EQ(read(R"(q: Is a\b: "x" = (y | z < w?)"),
            R"("q":{"type":"noul","instructions":"Is a\\b: \"x\" = (y | z < w?"})");
}

TEST(Ask, LetsABackslashMakeTheNextCharacterPlain) {
  EXPECT_EQ(read(R"(a\:b\=c\|d\<e\\f\(: T)"), R"("a:b=c|d<e\\f(":{"type":"noul","instructions":"T"})");
  EXPECT_EQ(
      read(R"(at = 9\:00 | f\(x\) (of \) and \\) | a\|b: When?)"),
      R"q("at":{"type":"choice","instructions":"When?","criteria":{"9:00":null,"f(x)":"of ) and \\","a|b":null}})q");
  EXPECT_EQ(read(R"(n = a\<b < \:\( : T)"), R"("n":{"type":"score","instructions":"T","criteria":["a<b",":("]})");
}

TEST(Ask, NeedsNoBackslashWhereNothingElseIsMeant) {
  EXPECT_EQ(read("Is it late (or early)"), R"q("Is it late (or early)":{"type":"noul"})q");
  EXPECT_EQ(read("p = a=1 | b) two: T"),
            R"("p":{"type":"choice","instructions":"T","criteria":{"a=1":null,"b) two":null}})");
}

TEST(Ask, KeepsOtherAlphabets) {
  EXPECT_EQ(read("été = chaud | 寒い (とても): Où?"),
            R"("été":{"type":"choice","instructions":"Où?","criteria":{"chaud":null,"寒い":"とても"}})");
}

TEST(Ask, PointsAtWhatIsWrong) {
  EXPECT_EQ(refusal(""), "expected the question's id\n  \n  ^");
  EXPECT_EQ(refusal(" : Is it?"),
            "expected the question's id\n"
            "   : Is it?\n"
            "   ^");
  EXPECT_EQ(refusal("outage: "),
            "expected the question's text after ':'\n"
            "  outage: \n"
            "          ^");
  EXPECT_EQ(refusal("team web | data: Who?"),
            "expected '=' between the id and its options; a plain '|' is written '\\|'\n"
            "  team web | data: Who?\n"
            "           ^");
  EXPECT_EQ(refusal("team = web: Who?"),
            "expected '|' and another option, or '<' and a higher level; a plain ':' is written '\\:'\n"
            "  team = web: Who?\n"
            "            ^");
  EXPECT_EQ(refusal("team = web"),
            "expected '|' and another option, or '<' and a higher level; a plain ':' is written '\\:'\n"
            "  team = web\n"
            "            ^");
  EXPECT_EQ(refusal("team = web |  | data"),
            "expected an option\n"
            "  team = web |  | data\n"
            "                ^");
  EXPECT_EQ(refusal("team = web | : Who?"),
            "expected an option\n"
            "  team = web | : Who?\n"
            "               ^");
  EXPECT_EQ(refusal("size = a < b | c: T"),
            "expected '<' as before: '|' stands between options, '<' between levels\n"
            "  size = a < b | c: T\n"
            "               ^");
  EXPECT_EQ(refusal("team = web (sites | data: Who?"),
            "'(' is not closed; a plain one is written '\\('\n"
            "  team = web (sites | data: Who?\n"
            "             ^");
  EXPECT_EQ(refusal("team = web (sites) too | data"),
            "expected '|' or ':' after a description; a plain '(' is written '\\('\n"
            "  team = web (sites) too | data\n"
            "                     ^");
  EXPECT_EQ(refusal("team = web ( ) | data"),
            "expected a description between '(' and ')'\n"
            "  team = web ( ) | data\n"
            "               ^");
  EXPECT_EQ(refusal("team = (sites) | data"),
            "expected an option before its description\n"
            "  team = (sites) | data\n"
            "         ^");
  EXPECT_EQ(refusal("team = web | data | web (again)"),
            "this option is there twice\n"
            "  team = web | data | web (again)\n"
            "                      ^");
  EXPECT_EQ(refusal("size = a < b < a"),
            "this level is there twice\n"
            "  size = a < b < a\n"
            "                 ^");
  for (const std::string_view text : {"a\\b: T", "a\\", "x = a\\ | b", "x = a (\\n) | b"}) {
    EXPECT_EQ(refusal(text).substr(0, 63), "'\\' makes one of : = | < ( ) \\ plain, and none of them follows\n")
        << text;
  }
}

TEST(Ask, PutsTheCaretUnderWideCharactersAndCutsLongTexts) {
  const auto place = [](const std::string& message) { return message.substr(message.find('\n') + 1); };
  EXPECT_EQ(place(refusal("寒い = é: T")),
            "  寒い = é: T\n"
            "          ^");
  EXPECT_EQ(place(refusal(std::string(100, 'x') + " | " + std::string(100, 'y'))),
            "  ..." + std::string(59, 'x') + " | " + std::string(18, 'y') + "...\n" + std::string(65, ' ') + "^");
  // Nothing in a message steers a terminal.
  EXPECT_EQ(refusal("a\x1b[2J\n | b").find('\x1b'), std::string::npos);
}

TEST(Ask, RefusesWhatIsNotUtf8) {
  EXPECT_EQ(refusal("a\xff: T"), "expected UTF-8, got another byte at place 1");
  EXPECT_EQ(refusal("a: T\xc3"), "expected UTF-8, got another byte at place 4");
}

TEST(Ask, KeepsQuestionsInOrderAndTheirIdsApart) {
  const auto questions = parse_questions({"b: B?", "a = x | y"});
  ASSERT_TRUE(questions);
  EXPECT_EQ(to_compact_json(*questions),
            R"({"b":{"type":"noul","instructions":"B?"},"a":{"type":"choice","criteria":{"x":null,"y":null}}})");
  const auto twice = parse_questions({"a: A?", "a = x | y"});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().message, "expected another id than before\n  a = x | y\n  ^");
}

}  // namespace
}  // namespace clef::cli
