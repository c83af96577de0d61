#include "record/request.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "support/golden.h"

namespace clef {
namespace {

Result<Request> parse(std::string_view text) {
  auto body = parse_json(text);
  if (!body) return std::move(body).error();
  return parse_request(std::move(body).value());
}

Result<Request> parse_question(std::string_view question) {
  return parse(fmt::format(R"({{"model":"clef","state":1,"questions":{{"a":{}}}}})", question));
}

std::string error_of(const Result<Request>& request) {
  if (request) return "accepted";
  EXPECT_EQ(request.error().code, Errc::bad_request);
  return request.error().message;
}

std::string described(const Question& question) {
  std::string text;
  for (const Option& option : question.options) {
    text += fmt::format("{}={} ", option.id, to_compact_json(option.description));
  }
  return text;
}

TEST(ParseRequest, RefusesWhatTheReferenceRefuses) {
  // Where the reference ends in an error of Python's own, or reads something meaningless, the message is ours.
  const std::map<std::string, std::string> ours = {
      {"'str' object has no attribute 'get'", "a: question must be an object"},
      {"'list' object has no attribute 'items'", "a: choice criteria must be an object"},
      {"unhashable type: 'list'", "a: type must be noul, choice, or score"},
      {"dictionary update sequence element #0 has length 1; 2 is required",
       "a: noul criteria must be an object (deliberate: lists of pairs are not accepted)"},
  };
  int refused = 0, accepted = 0, differing = 0;
  for (const Json& record : test::golden_lines("invalid.jsonl")) {
    const Json& body = *record.find("request");
    const auto request = parse_request(body);
    if (const Json* error = record.find("error")) {
      const std::string& message = *error->if_string();
      EXPECT_EQ(error_of(request), ours.contains(message) ? ours.at(message) : message) << to_compact_json(body);
      ++refused;
    } else if (record.find("response_text")->if_string()->find("\"legend\"") != std::string::npos) {
      EXPECT_EQ(error_of(request), "a: score criteria must be a list") << to_compact_json(body);
      ++differing;
    } else {
      EXPECT_TRUE(request) << to_compact_json(body);
      ++accepted;
    }
  }
  EXPECT_EQ(refused, 19);
  EXPECT_EQ(differing, 2);
  EXPECT_EQ(accepted, 2);
}

TEST(ParseRequest, WantsAnObject) {
  for (const std::string_view text : {"null", "[]", "\"x\"", "1", "true", "1.5"}) {
    EXPECT_EQ(error_of(parse(text)), "request must be a JSON object");
  }
}

TEST(ParseRequest, StopsAtTheFirstFailureInTheReferencesOrder) {
  EXPECT_EQ(error_of(parse(R"({"questions":{},"model":"m"})")), "model and state are required");
  EXPECT_EQ(error_of(parse(R"({"model":"m","state":null,"questions":5})")), "at least one question is required");
  EXPECT_EQ(error_of(parse(R"({"model":"","state":null,"questions":"x"})")), "at least one question is required");
  EXPECT_EQ(error_of(parse(R"({"model":"m","state":1,"questions":{"z":{"type":"choice"},"a":{"type":1}}})")),
            "z: criteria must not be empty");
  EXPECT_EQ(error_of(parse(R"({"model":"m","state":1,"questions":{"z":{"criteria":[]},"a":1}})")),
            "z: type must be noul, choice, or score");
  EXPECT_EQ(error_of(parse(R"({"model":"m","state":1,"images":["x"],"questions":{"z":[]}})")),
            "z: question must be an object");
}

TEST(ParseRequest, RefusesEveryFalseCriteriaOfChoiceAndScore) {
  for (const std::string_view type : {"choice", "score"}) {
    for (const std::string_view falsy : {"null", "{}", "[]", "\"\"", "0", "-0", "0.0", "false"}) {
      EXPECT_EQ(error_of(parse_question(fmt::format(R"({{"type":"{}","criteria":{}}})", type, falsy))),
                "a: criteria must not be empty");
    }
  }
  for (const std::string_view criteria : {"[1]", "\"x\"", "1", "0.5", "true", "NaN"}) {
    EXPECT_EQ(error_of(parse_question(fmt::format(R"({{"type":"choice","criteria":{}}})", criteria))),
              "a: choice criteria must be an object");
  }
  for (const std::string_view criteria : {"{\"x\":1}", "\"abc\"", "1", "true"}) {
    EXPECT_EQ(error_of(parse_question(fmt::format(R"({{"type":"score","criteria":{}}})", criteria))),
              "a: score criteria must be a list");
  }
}

TEST(ParseRequest, NoulHasBuiltInTextsThatCriteriaOverride) {
  const std::string built_in =
      "true=\"The proposition is true or the answer is yes.\" false=\"The proposition is false or the answer is no.\" ";
  EXPECT_EQ(described(parse_question(R"({"type":"noul"})")->questions[0]), built_in);
  for (const std::string_view falsy : {"null", "{}", "[]", "\"\"", "0", "0.0", "false"}) {
    const auto request = parse_question(fmt::format(R"({{"type":"noul","criteria":{}}})", falsy));
    EXPECT_EQ(described(request->questions[0]), built_in) << falsy;
  }
  EXPECT_EQ(described(parse_question(R"({"type":"noul","criteria":{"false":null,"x":1,"true":["y"]}})")->questions[0]),
            R"(true=["y"] false=null )");
  EXPECT_EQ(described(parse_question(R"({"type":"noul","criteria":{"false":""}})")->questions[0]),
            "true=\"The proposition is true or the answer is yes.\" false=\"\" ");
  for (const std::string_view criteria : {"[[\"true\",\"x\"]]", "[\"tx\"]", "\"x\"", "1", "true"}) {
    EXPECT_EQ(error_of(parse_question(fmt::format(R"({{"type":"noul","criteria":{}}})", criteria))),
              "a: noul criteria must be an object (deliberate: lists of pairs are not accepted)");
  }
}

TEST(ParseRequest, SortsChoicesAndRemembersTheCallersOrder) {
  const auto request =
      parse_question(R"({"type":"choice","criteria":{"b":1,"\ud83d\ude00":2,"\uffff":null,"a":{"z":0},"":"x"}})");
  ASSERT_TRUE(request);
  const Question& question = request->questions[0];
  EXPECT_EQ(described(question), "=\"x\" a={\"z\":0} b=1 \xEF\xBF\xBF=null \xF0\x9F\x98\x80=2 ");
  EXPECT_EQ(question.caller_order, (std::vector<std::string>{"b", "\xF0\x9F\x98\x80", "\xEF\xBF\xBF", "a", ""}));
}

TEST(ParseRequest, NumbersLevelsFromZero) {
  const auto request = parse_question(R"({"type":"score","criteria":["low",null,{"b":1,"a":2}]})");
  ASSERT_TRUE(request);
  EXPECT_EQ(described(request->questions[0]), R"(0="low" 1=null 2={"b":1,"a":2} )");
  EXPECT_EQ(request->questions[0].caller_order, (std::vector<std::string>{"0", "1", "2"}));
}

TEST(ParseRequest, TakesTheIdForMissingInstructions) {
  const auto instructions_of = [](std::string_view value) {
    const auto request = parse_question(fmt::format(R"({{"type":"noul","instructions":{}}})", value));
    return request->questions.at(0).instructions;
  };
  EXPECT_EQ(parse_question(R"({"type":"noul"})")->questions[0].instructions, "a");
  EXPECT_EQ(instructions_of("null"), "a");
  EXPECT_EQ(instructions_of("\"\""), "a");
  EXPECT_EQ(instructions_of("\" \""), " ");
  EXPECT_EQ(instructions_of("false"), "false");
  EXPECT_EQ(instructions_of("0"), "0");
  EXPECT_EQ(instructions_of("[]"), "[]");
  EXPECT_EQ(instructions_of("{}"), "{}");
  EXPECT_EQ(instructions_of(R"({"b":1.0,"a":"\u00e9"})"), "{\"a\":\"\xC3\xA9\",\"b\":1.0}");
}

TEST(ParseRequest, RefusesAnEmptyIdWithoutInstructions) {
  const auto with = [](std::string_view question) {
    return parse(fmt::format(R"({{"model":"m","state":1,"questions":{{"":{}}}}})", question));
  };
  const std::string message = "question with an empty id needs non-empty instructions";
  EXPECT_EQ(error_of(with(R"({"type":"noul"})")), message);
  EXPECT_EQ(error_of(with(R"({"type":"noul","instructions":null})")), message);
  EXPECT_EQ(error_of(with(R"({"type":"noul","instructions":""})")), message);
  EXPECT_TRUE(with(R"({"type":"noul","instructions":"x"})"));
  EXPECT_TRUE(with(R"({"type":"noul","instructions":0})"));
  EXPECT_EQ(error_of(with(R"({"type":"choice"})")), ": criteria must not be empty");
}

TEST(ParseRequest, RendersTheState) {
  const auto state_of = [](std::string_view value) {
    return parse(fmt::format(R"({{"model":"m","state":{},"questions":{{"a":{{"type":"noul"}}}}}})", value))->state;
  };
  EXPECT_EQ(state_of("\" as it \\n stands\""), " as it \n stands");
  EXPECT_EQ(state_of("null"), "null");
  EXPECT_EQ(state_of("\"\""), "");
  EXPECT_EQ(state_of("1E2"), "100.0");
  EXPECT_EQ(state_of(R"({"b":[1,"x"],"a":null})"), R"({"a":null,"b":[1,"x"]})");
}

TEST(ParseRequest, CutsLongIdsInMessagesBetweenCharacters) {
  const std::string id = std::string(199, 'x') + "\xC3\xA9";
  const auto request = parse(fmt::format(R"({{"model":"m","state":1,"questions":{{"{}":1}}}})", id));
  EXPECT_EQ(error_of(request), std::string(199, 'x') + ": question must be an object");
  const std::string fits = std::string(198, 'x') + "\xC3\xA9";
  EXPECT_EQ(error_of(parse(fmt::format(R"({{"model":"m","state":1,"questions":{{"{}y":1}}}})", fits))),
            fits + ": question must be an object");
}

TEST(ParseRequest, IgnoresUnknownMembers) {
  const auto request = parse(R"({"x":1,"id":[],"media_kwargs":{"min_pixels":1},"model":"m","state":1,
                                "questions":{"a":{"type":"noul","legend":3,"x":{}}}})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->model, "m");
  EXPECT_EQ(request->questions[0].type, QuestionType::noul);
}

TEST(ParseRequest, SaysThatAudioIsUnsupported) {
  const auto with = [](std::string_view value) {
    return parse(fmt::format(R"({{"model":"m","state":1,"questions":{{"a":{{"type":"noul"}}}},"audio":{}}})", value));
  };
  EXPECT_TRUE(with("null"));
  EXPECT_TRUE(with("[]"));
  for (const std::string_view value : {"[\"data:,\"]", "\"x\"", "{\"a\":1}"}) {
    const auto request = with(value);
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().code, Errc::unsupported);
    EXPECT_EQ(request.error().message, "audio is not supported by this model file");
  }
}

TEST(ParseRequest, KeepsTheOrderOfManyQuestions) {
  std::string questions;
  for (int i = 0; i < 5000; ++i)
    questions += fmt::format("{}\"q{}\":{{\"type\":\"noul\"}}", i == 0 ? "" : ",", 7919 * i % 5000);
  const auto request = parse(fmt::format(R"({{"model":"m","state":1,"questions":{{{}}}}})", questions));
  ASSERT_TRUE(request);
  ASSERT_EQ(request->questions.size(), 5000U);
  for (std::size_t i = 0; i < 5000; ++i) EXPECT_EQ(request->questions[i].id, fmt::format("q{}", 7919 * i % 5000));
}

}  // namespace
}  // namespace clef
