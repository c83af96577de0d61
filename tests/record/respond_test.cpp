#include "record/respond.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "support/golden.h"

namespace clef {
namespace {

Request request_of(Json body) {
  auto request = parse_request(std::move(body));
  if (!request) ADD_FAILURE() << request.error().message;
  return std::move(request).value();
}

std::string answer_to(std::string_view question, std::vector<double> probabilities) {
  auto body = parse_json(fmt::format(R"({{"model":"m","state":1,"questions":{{"a":{}}}}})", question));
  const Request request = request_of(std::move(body).value());
  const Decisions decisions{.logits = {}, .probabilities = {std::move(probabilities)}};
  return to_compact_json(*respond(request, {}, decisions).find("answers")->find("a"));
}

TEST(Respond, WritesTheReferencesAnswerFromItsProbabilities) {
  int compared = 0;
  for (const char* file : {"text.jsonl", "tiny27.jsonl"}) {
    for (const Json& record : test::golden_lines(file)) {
      const Request request = request_of(parse_json(*record.find("request_text")->if_string()).value());
      EncodedRecord encoded;
      encoded.input_ids.resize(record.find("input_ids")->if_array()->size());
      Decisions decisions;
      for (const Json& question : *record.find("probabilities")->if_array()) {
        decisions.probabilities.emplace_back();
        for (const Json& number : *question.if_array()) decisions.probabilities.back().push_back(*number.if_double());
      }
      const auto expected = parse_json(*record.find("response_text")->if_string());
      EXPECT_EQ(to_compact_json(respond(request, encoded, decisions)), to_compact_json(*expected))
          << *record.find("name")->if_string();
      ++compared;
    }
  }
  EXPECT_GE(compared, 44);
}

TEST(Respond, TakesTheFirstOfEqualChoicesInTheCallersOrder) {
  EXPECT_EQ(answer_to(R"({"type":"choice","criteria":{"c":1,"a":1,"b":1}})", {0.4, 0.2, 0.4}),
            R"({"type":"choice","choice":"c","confidence":0.4,"probabilities":{"c":0.4,"a":0.4,"b":0.2}})");
  // The choice is made before rounding.
  EXPECT_EQ(answer_to(R"({"type":"choice","criteria":{"c":1,"a":1}})", {0.50001, 0.49999}),
            R"({"type":"choice","choice":"a","confidence":0.5,"probabilities":{"c":0.5,"a":0.5}})");
}

TEST(Respond, KeepsTheLegendAsItCame) {
  EXPECT_EQ(answer_to(R"({"type":"score","criteria":["low",null,{"b":1.50,"a":[]}]})", {0.25, 0.5, 0.25}),
            R"({"type":"score","score":1.0,"confidence":0.5,"legend":{"0":"low","1":null,"2":{"b":1.5,"a":[]}},)"
            R"("probabilities":{"0":0.25,"1":0.5,"2":0.25}})");
}

TEST(Respond, SumsScoresAsPython312) {
  // round(sum(i * p for i, p in enumerate(probabilities)), 4) is 1.0313 in CPython 3.12.1 and 1.0312 in 3.11.7, whose
  // sum is not compensated.
  const double tiny = std::ldexp(0.3, -52);
  const std::string answer = answer_to(R"({"type":"score","criteria":[1,2,3,4]})", {0.0, 1.03125, tiny / 2, tiny / 3});
  EXPECT_NE(answer.find(R"("score":1.0313,)"), std::string::npos) << answer;
}

TEST(Respond, WritesNoulAndUsage) {
  const Request request = request_of(Json::Object{
      {"model", "\xC3\xA9\"\n"}, {"state", 1}, {"questions", Json::Object{{"q", Json::Object{{"type", "noul"}}}}}});
  EncodedRecord record;
  record.input_ids.resize(207);
  EXPECT_EQ(to_compact_json(respond(request, record, {.logits = {}, .probabilities = {{0.00004, 0.99996}}})),
            "{\"model\":\"\xC3\xA9\\\"\\n\",\"answers\":{\"q\":{\"type\":\"noul\",\"noul\":0.0}},"
            "\"usage\":{\"input_tokens\":207,\"output_tokens\":0}}");
}

TEST(LogitsByOption, WritesShortNumbersThatReadBackToTheSameFloat) {
  const std::vector<float> logits = {0.1F,
                                     -1.4159305F,
                                     16777216.0F,
                                     1e-10F,
                                     3.4028235e38F,
                                     1e-45F,
                                     0.0F,
                                     -0.0F,
                                     1.17549435e-38F,
                                     8.5899346e9F,
                                     std::numeric_limits<float>::infinity()};
  EncodedRecord record;
  record.questions.resize(1);
  record.questions[0].id = "q";
  for (std::size_t i = 0; i < logits.size(); ++i) record.questions[0].option_ids.push_back(fmt::format("o{}", i));
  const Json value = logits_by_option(record, {.logits = {logits}, .probabilities = {}});
  EXPECT_EQ(
      to_compact_json(value),
      R"({"q":{"o0":0.1,"o1":-1.4159305,"o2":16777216.0,"o3":1e-10,"o4":3.4028235e+38,"o5":1e-45,"o6":0.0,"o7":-0.0,)"
      R"("o8":1.1754944e-38,"o9":8589935000.0,"o10":Infinity}})");
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_EQ(static_cast<float>(*value.find("q")->if_object()->at(i).second.if_double()), logits[i]);
  }
}

TEST(LogitsByOption, ReadsBackForEveryExponent) {
  EncodedRecord record;
  record.questions.resize(1);
  std::vector<float> logits;
  std::uint32_t state = 1;
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (int i = 0; i < 40; ++i) {
      state = state * 1664525U + 1013904223U;
      logits.push_back(std::bit_cast<float>(exponent << 23 | state >> 9));
      record.questions[0].option_ids.push_back(std::to_string(logits.size()));
    }
  }
  const Json value = logits_by_option(record, {.logits = {logits}, .probabilities = {}});
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double number = *value.find("")->if_object()->at(i).second.if_double();
    EXPECT_EQ(static_cast<float>(number), logits[i]);
    EXPECT_EQ(std::strtof(float_repr(number).c_str(), nullptr), logits[i]);
    EXPECT_LE(float_repr(number).size(), 18U);
  }
}

}  // namespace
}  // namespace clef
