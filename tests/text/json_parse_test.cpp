#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "text/json.h"

namespace clef {
namespace {

using namespace std::string_literals;

std::string error_of(std::string_view text) {
  const auto value = parse_json(text);
  if (value) return "parsed: " + to_compact_json(*value);
  EXPECT_EQ(value.error().code, Errc::bad_request);
  return value.error().message;
}

Json parsed(std::string_view text) {
  auto value = parse_json(text);
  if (!value) {
    ADD_FAILURE() << value.error().message;
    return {};
  }
  return std::move(value).value();
}

std::string repeated(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(JsonParse, NamesWhatIsWrongAndWhere) {
  EXPECT_EQ(error_of(""), "json: unexpected end of input at byte 0");
  EXPECT_EQ(error_of(" \t\r\n"), "json: unexpected end of input at byte 4");
  EXPECT_EQ(error_of("[1,"), "json: unexpected end of input at byte 3");
  EXPECT_EQ(error_of("[1"), "json: unexpected end of input at byte 2");
  EXPECT_EQ(error_of("{"), "json: unexpected end of input at byte 1");
  EXPECT_EQ(error_of(R"({"a")"), "json: unexpected end of input at byte 4");
  EXPECT_EQ(error_of(R"({"a":)"), "json: unexpected end of input at byte 5");
  EXPECT_EQ(error_of(R"({"a":1)"), "json: unexpected end of input at byte 6");
  EXPECT_EQ(error_of("tru"), "json: unexpected end of input at byte 3");

  EXPECT_EQ(error_of("x"), "json: unexpected character at byte 0");
  EXPECT_EQ(error_of("'a'"), "json: unexpected character at byte 0");
  EXPECT_EQ(error_of("[1,]"), "json: unexpected character at byte 3");
  EXPECT_EQ(error_of("[,1]"), "json: unexpected character at byte 1");
  EXPECT_EQ(error_of("nul1"), "json: unexpected character at byte 3");
  EXPECT_EQ(error_of("None"), "json: unexpected character at byte 1");
  EXPECT_EQ(error_of("-Inf"), "json: unexpected end of input at byte 4");
  EXPECT_EQ(error_of("+1"), "json: unexpected character at byte 0");
  EXPECT_EQ(error_of(".5"), "json: unexpected character at byte 0");
  EXPECT_EQ(error_of("\xEF\xBB\xBF{}"), "json: unexpected character at byte 0");  // a byte order mark
  EXPECT_EQ(error_of("\xFF"), "json: unexpected character at byte 0");
  EXPECT_EQ(error_of("\0"s), "json: unexpected character at byte 0");
  EXPECT_EQ(error_of("[1,\v2]"), "json: unexpected character at byte 3");

  EXPECT_EQ(error_of("{1:2}"), "json: expected object key at byte 1");
  EXPECT_EQ(error_of(R"({"a":1,})"), "json: expected object key at byte 7");
  EXPECT_EQ(error_of("{a:1}"), "json: expected object key at byte 1");
  EXPECT_EQ(error_of(R"({"a" 1})"), "json: expected ':' at byte 5");
  EXPECT_EQ(error_of(R"({"a":1 "b":2})"), "json: expected ',' or '}' at byte 7");
  EXPECT_EQ(error_of(R"({"a":1])"), "json: expected ',' or '}' at byte 6");
  EXPECT_EQ(error_of("[1 2]"), "json: expected ',' or ']' at byte 3");
  EXPECT_EQ(error_of("[1}"), "json: expected ',' or ']' at byte 2");

  EXPECT_EQ(error_of(R"(["abc)"), "json: unterminated string at byte 1");
  EXPECT_EQ(error_of(R"("abc\)"), "json: unterminated string at byte 0");
  EXPECT_EQ(error_of("\"a\nb\""), "json: control character in string at byte 2");
  EXPECT_EQ(error_of("\"12345678\x1F\""), "json: control character in string at byte 9");
  EXPECT_EQ(error_of("\"\0\""s), "json: control character in string at byte 1");
  EXPECT_EQ(error_of(R"("a\x")"), "json: bad escape at byte 2");
  EXPECT_EQ(error_of(R"("\U0041")"), "json: bad escape at byte 1");
  EXPECT_EQ(error_of(R"("\u12G4")"), "json: bad \\u escape at byte 1");
  EXPECT_EQ(error_of(R"("\u 123")"), "json: bad \\u escape at byte 1");
  EXPECT_EQ(error_of(R"("\u12)"), "json: bad \\u escape at byte 1");

  EXPECT_EQ(error_of("-"), "json: bad number at byte 0");
  EXPECT_EQ(error_of("[-a]"), "json: bad number at byte 1");
  EXPECT_EQ(error_of("-NaN"), "json: bad number at byte 0");
  EXPECT_EQ(error_of("01"), "json: bad number at byte 0");
  EXPECT_EQ(error_of("-00"), "json: bad number at byte 0");
  EXPECT_EQ(error_of("1."), "json: bad number at byte 0");
  EXPECT_EQ(error_of("[1.e5]"), "json: bad number at byte 1");
  EXPECT_EQ(error_of("1e"), "json: bad number at byte 0");
  EXPECT_EQ(error_of("1E+"), "json: bad number at byte 0");

  EXPECT_EQ(error_of("1 2"), "json: trailing data at byte 2");
  EXPECT_EQ(error_of("{}}"), "json: trailing data at byte 2");
  EXPECT_EQ(error_of("nulll"), "json: trailing data at byte 4");
  EXPECT_EQ(error_of("0x10"), "json: trailing data at byte 1");
  EXPECT_EQ(error_of("{}\0"s), "json: trailing data at byte 2");
}

TEST(JsonParse, RefusesInvalidUtf8AtItsFirstByte) {
  for (const std::string_view bad : {
           "\x80",              // a stray continuation byte
           "\xC3",              // a missing one
           "\xC0\xAF",          // overlong, two bytes
           "\xC1\xBF",          //
           "\xE0\x9F\xBF",      // overlong, three bytes
           "\xED\xA0\x80",      // a surrogate
           "\xED\xBF\xBF",      //
           "\xE2\x82",          // cut short
           "\xE2\x28\xA1",      //
           "\xF0\x8F\xBF\xBF",  // overlong, four bytes
           "\xF4\x90\x80\x80",  // past U+10FFFF
           "\xF5\x80\x80\x80",  //
           "\xF0\x9F\x98",      //
           "\xFE",
           "\xFF",
       }) {
    EXPECT_EQ(error_of("\"ab" + std::string(bad) + "\""), "json: invalid UTF-8 at byte 3");
    EXPECT_EQ(error_of("\"ab" + std::string(bad)), "json: invalid UTF-8 at byte 3");
    EXPECT_EQ(error_of("{\"" + std::string(bad) + "\":1}"), "json: invalid UTF-8 at byte 2");
  }
}

TEST(JsonParse, TakesEveryLengthOfUtf8) {
  for (const std::string text : {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                                 "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(parsed("\"" + text + "\""), Json(text));
    EXPECT_EQ(parsed("\"1234567" + text + "89\""), Json("1234567" + text + "89"));
  }
}

TEST(JsonParse, RefusesLoneSurrogates) {
  EXPECT_EQ(error_of(R"("\ud800")"), "json: lone surrogate in string at byte 1");
  EXPECT_EQ(error_of(R"("a\udc00")"), "json: lone surrogate in string at byte 2");
  EXPECT_EQ(error_of(R"("\ud83d\u0041")"), "json: lone surrogate in string at byte 1");
  EXPECT_EQ(error_of(R"("\ud83d\ud83d\ude00")"), "json: lone surrogate in string at byte 1");
  EXPECT_EQ(error_of(R"("\ud83dx\ude00")"), "json: lone surrogate in string at byte 1");
  EXPECT_EQ(error_of(R"("\ude00\ud83d")"), "json: lone surrogate in string at byte 1");
  EXPECT_EQ(error_of(R"({"\uDBFF":1})"), "json: lone surrogate in string at byte 2");
}

TEST(JsonParse, ReadsEscapes) {
  EXPECT_EQ(parsed(R"("\"\\\/\b\f\n\r\t")"), Json("\"\\/\b\f\n\r\t"));
  EXPECT_EQ(parsed(R"("\u0000")"), Json("\0"s));
  EXPECT_EQ(parsed(R"("\u00e9\u20AC\ud83d\ude00\uDBFF\uDFFF")"),
            Json("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF"));
}

TEST(JsonParse, FindsAQuoteAtEveryPlaceOfAWord) {
  for (std::size_t length = 0; length < 40; ++length) {
    const std::string text(length, 'x');
    EXPECT_EQ(parsed("\"" + text + "\""), Json(text));
    EXPECT_EQ(parsed("[\"" + text + "\\n\"]"), Json(Json::Array{text + "\n"}));
  }
}

TEST(JsonParse, KeepsIntegersExactAndLimitsTheirDigits) {
  EXPECT_EQ(parsed("-0"), Json(0));
  EXPECT_EQ(parsed("-12"), Json(-12));
  EXPECT_EQ(parsed("9007199254740993").if_integer()->digits, "9007199254740993");
  const std::string longest(4300, '9');
  EXPECT_EQ(parsed(longest).if_integer()->digits, longest);
  EXPECT_EQ(parsed("-" + longest).if_integer()->digits, "-" + longest);
  EXPECT_EQ(error_of("[" + longest + "9]"), "json: integer exceeds Python's 4300-digit limit at byte 1");
  EXPECT_EQ(error_of("-" + longest + "9"), "json: integer exceeds Python's 4300-digit limit at byte 0");
}

TEST(JsonParse, ReadsDoublesWithOverflowAndUnderflow) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(parsed("1e5"), Json(100000.0));
  EXPECT_EQ(parsed("-0.5E-1"), Json(-0.05));
  EXPECT_EQ(parsed("5e-324"), Json(5e-324));
  EXPECT_EQ(parsed("2.2250738585072011e-308"), Json(2.2250738585072011e-308));  // below the smallest normal number
  EXPECT_EQ(parsed("1e400"), Json(kInfinity));
  EXPECT_EQ(parsed("-1e400"), Json(-kInfinity));
  EXPECT_EQ(parsed("1.7976931348623159e308"), Json(kInfinity));
  EXPECT_EQ(parsed("1e99999999999999999999999"), Json(kInfinity));
  EXPECT_EQ(parsed("0e99999999999999999999999"), Json(0.0));
  EXPECT_EQ(parsed("0.0e400"), Json(0.0));
  EXPECT_EQ(parsed("1e-99999999999999999999999"), Json(0.0));
  EXPECT_EQ(parsed("1e-400"), Json(0.0));
  EXPECT_EQ(parsed("2e-324"), Json(0.0));
  EXPECT_EQ(parsed("0." + std::string(500, '0') + "1e501"), Json(1.0));
  EXPECT_EQ(parsed("0." + std::string(500, '0') + "1e900"), Json(kInfinity));
  EXPECT_EQ(parsed("1" + std::string(500, '0') + "e-500"), Json(1.0));
  EXPECT_EQ(parsed("1" + std::string(500, '0') + "e-900"), Json(0.0));
  EXPECT_EQ(parsed(std::string(400, '1') + ".0"), Json(kInfinity));
  EXPECT_TRUE(std::signbit(*parsed("-0.0").if_double()));
  EXPECT_TRUE(std::signbit(*parsed("-1e-400").if_double()));
  EXPECT_TRUE(std::isnan(*parsed("NaN").if_double()));
  EXPECT_EQ(parsed("[Infinity,-Infinity]"), Json(Json::Array{kInfinity, -kInfinity}));
}

TEST(JsonParse, KeepsTheOrderOfMembersAndTheLastOfRepeatedKeys) {
  EXPECT_EQ(to_compact_json(parsed(R"({"b":1,"a":2,"b":3,"c":4,"a":{"x":1,"x":2}})")), R"({"b":3,"a":{"x":2},"c":4})");
  EXPECT_EQ(to_compact_json(parsed(R"({"":1,"":2})")), R"({"":2})");
  EXPECT_EQ(to_compact_json(parsed(R"({"a":1,"\u0061":2})")), R"({"a":2})");
}

TEST(JsonParse, ResolvesRepeatedKeysAlikeForAnyNumberOfMembers) {
  for (const std::size_t count : {1U, 2U, 15U, 16U, 17U, 18U, 33U, 1000U}) {
    std::string text = "{", expected = "{";
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view comma = i == 0 ? "" : ",";
      text += fmt::format("{}\"key number {}\":[{}]", comma, i, i);
      expected += fmt::format("{}\"key number {}\":{}", comma, i, i % 3 == 0 ? "\"again\"" : fmt::format("[{}]", i));
    }
    for (std::size_t i = 0; i < count; i += 3) text += fmt::format(",\"key number {}\":\"again\"", i);
    EXPECT_EQ(to_compact_json(parsed(text + "}")), expected + "}");
  }
}

TEST(JsonParse, IsLinearInRepeatedAndDistinctKeys) {
  // A quadratic way through any of these would take minutes.
  constexpr std::size_t kCount = 300'000;
  EXPECT_EQ(to_compact_json(parsed("{" + repeated("\"a\":0,", kCount) + "\"a\":1}")), R"({"a":1})");
  std::string distinct = "{";
  for (std::size_t i = 0; i < kCount; ++i) distinct += fmt::format("\"{:x}\":{},", i, i);
  const std::string once = distinct.substr(0, distinct.size() - 1) + "}";
  const std::string twice = distinct + once.substr(1);
  const Json value = parsed(twice);
  ASSERT_EQ(value.if_object()->size(), kCount);
  EXPECT_EQ(to_compact_json(value), once);
}

TEST(JsonParse, IsLinearInAnyOneThing) {
  const std::string digits(2'000'000, '7');
  EXPECT_EQ(parsed("1e-" + digits), Json(0.0));
  EXPECT_TRUE(std::isinf(*parsed(digits + "e1").if_double()));
  EXPECT_EQ(*parsed("0." + digits).if_double(), 0.7777777777777778);
  EXPECT_EQ(error_of(digits), "json: integer exceeds Python's 4300-digit limit at byte 0");
  EXPECT_EQ(parsed("\"" + repeated("\\ud83d\\ude00\xC3\xA9\\n", 300'000) + "\"").if_string()->size(), 7U * 300'000U);
  EXPECT_EQ(parsed("[" + repeated("[],", 500'000) + "[]]").if_array()->size(), 500'001U);
  EXPECT_EQ(error_of(repeated("[{\"a\":", 500'000)), "json: nesting too deep at byte 1536");
}

TEST(JsonParse, NestsTo512Deep) {
  const auto nested = [](std::size_t depth) { return repeated("[", depth) + repeated("]", depth); };
  EXPECT_EQ(to_compact_json(parsed(nested(512))), nested(512));
  EXPECT_EQ(render(parsed(nested(512))), nested(512));
  EXPECT_EQ(error_of(nested(513)), "json: nesting too deep at byte 512");
  EXPECT_EQ(error_of(repeated("[", 10'000'000)), "json: nesting too deep at byte 512");

  const std::string objects = repeated("{\"a\":", 511) + "{}" + repeated("}", 511);
  const Json value = parsed(objects);
  const Json copy = value;  // copying, comparing and destroying go as deep
  EXPECT_EQ(copy, value);
  EXPECT_EQ(to_compact_json(copy), objects);
  EXPECT_EQ(error_of(repeated("{\"a\":", 512) + "{}" + repeated("}", 512)), "json: nesting too deep at byte 2560");

  // Siblings do not add up.
  EXPECT_TRUE(parse_json("[" + repeated("[[[]]],", 1000) + "[]]"));
}

TEST(Json, TellsPythonTruth) {
  for (const std::string_view text : {"null", "false", "0", "-0", "0.0", "-0.0", "\"\"", "[]", "{}"}) {
    EXPECT_FALSE(parsed(text).is_truthy()) << text;
  }
  for (const std::string_view text :
       {"true", "1", "-1", "0.1", "NaN", "Infinity", "\"0\"", "[0]", "{\"\":0}", "\" \""}) {
    EXPECT_TRUE(parsed(text).is_truthy()) << text;
  }
}

TEST(Json, NamesItsTypeAndFindsMembers) {
  const Json value = parsed(R"({"a":null,"b":true,"c":1,"d":1.0,"e":"","f":[],"g":{}})");
  const char* const names[] = {"null", "boolean", "integer", "number", "string", "list", "object"};
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(value.if_object()->at(i).second.type_name(), names[i]);
  EXPECT_EQ(*value.find("c"), Json(1));
  EXPECT_EQ(value.find("z"), nullptr);
  EXPECT_EQ(value.find("f")->find("a"), nullptr);
}

}  // namespace
}  // namespace clef
