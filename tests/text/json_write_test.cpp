#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "support/golden.h"
#include "text/json.h"

namespace clef {
namespace {

TEST(JsonRender, WritesWhatTheReferenceWrites) {
  int refused = 0;
  const auto records = test::golden_lines("render.jsonl");
  for (const Json& record : records) {
    const std::string& text = *record.find("json")->if_string();
    const auto value = parse_json(text);
    if (record.find("rendered_utf16_surrogates") != nullptr) {  // Differs: no UTF-8 form, so refused
      ASSERT_FALSE(value) << text;
      EXPECT_EQ(value.error().message, "json: lone surrogate in string at byte 1");
      ++refused;
    } else {
      ASSERT_TRUE(value) << text;
      EXPECT_EQ(render(*value), *record.find("rendered")->if_string()) << text;
    }
  }
  EXPECT_EQ(records.size(), 48U);
  EXPECT_EQ(refused, 1);
}

// Expected: Python 3.11, json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"), sort_keys=True).
TEST(JsonRender, SortsKeysAtEveryDepthByCodePoint) {
  const auto value =
      parse_json(R"([{"b":[{"d":1,"c":{"f":1,"e":2}}],"a":"x","":0,"ab":1,"aa":2,"\uffff":1,"\ud83d\ude00":2}])");
  ASSERT_TRUE(value);
  EXPECT_EQ(render(*value),
            "[{\"\":0,\"a\":\"x\",\"aa\":2,\"ab\":1,\"b\":[{\"c\":{\"e\":2,\"f\":1},\"d\":1}],\"\xEF\xBF\xBF\":1,"
            "\"\xF0\x9F\x98\x80\":2}]");
}

TEST(JsonRender, LeavesATopLevelStringAsItStands) {
  EXPECT_EQ(render(Json(" \"a\"\n")), " \"a\"\n");
  EXPECT_EQ(render(Json(Json::Array{" \"a\"\n"})), R"([" \"a\"\n"])");
}

TEST(JsonWrite, EscapesAsPython) {
  std::string all, expected = "\"";
  for (int byte = 0; byte < 0x80; ++byte) all += static_cast<char>(byte);
  for (int byte = 0; byte < 0x20; ++byte) {
    const char* named = byte == 8    ? "\\b"
                        : byte == 9  ? "\\t"
                        : byte == 10 ? "\\n"
                        : byte == 12 ? "\\f"
                        : byte == 13 ? "\\r"
                                     : nullptr;
    expected += named != nullptr ? named : fmt::format("\\u{:04x}", byte);
  }
  for (int byte = 0x20; byte < 0x80; ++byte) {
    if (byte == '"' || byte == '\\') expected += '\\';
    expected += static_cast<char>(byte);
  }
  expected += "\"";
  std::string out;
  append_json_string(out, all);
  EXPECT_EQ(out, expected);

  out.clear();
  append_json_string(out, "\xE2\x80\xA8/\xC3\xA9\xF0\x9F\x98\x80");  // U+2028 too stays raw
  EXPECT_EQ(out, "\"\xE2\x80\xA8/\xC3\xA9\xF0\x9F\x98\x80\"");
}

TEST(JsonWrite, KeepsMembersInOrderWithoutSpaces) {
  const Json value =
      Json::Object{{"b", Json::Array{1, 2.0, "x", nullptr, true, false}}, {"a", Json::Object{}}, {"c", Json::Array{}}};
  EXPECT_EQ(to_compact_json(value), R"({"b":[1,2.0,"x",null,true,false],"a":{},"c":[]})");
  EXPECT_EQ(to_compact_json(Json("x")), "\"x\"");
}

// Expected: Python 3.11, repr(float).
TEST(FloatRepr, PrintsAsPython) {
  const std::pair<double, const char*> cases[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {-1.5, "-1.5"},
      {100.0, "100.0"},
      {0.1, "0.1"},
      {0.0001, "0.0001"},
      {0.00012345, "0.00012345"},
      {0.00001, "1e-05"},
      {-0.000012345, "-1.2345e-05"},
      {123456.789, "123456.789"},
      {1e15, "1000000000000000.0"},
      {9999999999999998.0, "9999999999999998.0"},
      {1e16, "1e+16"},
      {12345678901234567.0, "1.2345678901234568e+16"},
      {123456789012345680.0, "1.2345678901234568e+17"},
      {1e22, "1e+22"},
      {1e23, "1e+23"},
      {1.5e300, "1.5e+300"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {2.0 / 3.0, "0.6666666666666666"},
      {1e100, "1e+100"},
      {1e-100, "1e-100"},
      {4.35, "4.35"},
      {0.30000000000000004, "0.30000000000000004"},
      {9007199254740992.0, "9007199254740992.0"},
      {2.5e-5, "2.5e-05"},
      {1234567890123456.0, "1234567890123456.0"},
      {std::numeric_limits<double>::infinity(), "Infinity"},
      {-std::numeric_limits<double>::infinity(), "-Infinity"},
      {std::numeric_limits<double>::quiet_NaN(), "NaN"},
      {-std::numeric_limits<double>::quiet_NaN(), "NaN"},
  };
  for (const auto& [value, text] : cases) EXPECT_EQ(float_repr(value), text);
}

// Expected: Python 3.11, round(value, 4).
TEST(Round4, RoundsTheExactValueTiesToEven) {
  const std::pair<double, const char*> cases[] = {
      {0.03125, "0.0312"},
      {0.09375, "0.0938"},
      {0.15625, "0.1562"},
      {0.21875, "0.2188"},
      {0.5, "0.5"},
      {0.99995, "1.0"},
      {0.999950001, "1.0"},
      {0.00005, "0.0001"},
      {0.00004999, "0.0"},
      {1.00005, "1.0001"},
      {2.67555, "2.6755"},
      {0.12345, "0.1235"},
      {0.3926211595535278, "0.3926"},
      {-0.00001, "-0.0"},
      {-0.03125, "-0.0312"},
      {1e300, "1e+300"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {123456789.123456, "123456789.1235"},
      {5e-324, "0.0"},
  };
  for (const auto& [value, text] : cases) EXPECT_EQ(float_repr(round4(value)), text) << float_repr(value);
  EXPECT_TRUE(std::isnan(round4(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_TRUE(std::isinf(round4(-std::numeric_limits<double>::infinity())));
}

}  // namespace
}  // namespace clef
