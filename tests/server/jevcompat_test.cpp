// The rules of the jevcompat suite, restated: each passes, or fails by design, for the reason that stands beside it. A
// rule that fails by design is held to failing, so that the table stays true.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "backend/open.h"
#include "server_fixture.h"
#include "support/golden.h"

namespace clef::server {
namespace {

using test::HttpAnswer;

class Model {
 public:
  Model() {
    auto device = open_device({.device = "cpu", .num_threads = 2});
    engine_ = Engine::open(test::test_data_path("clef-tiny"), std::move(device).value(), EngineOptions()).value();
    FixtureOptions options = fixture_options();
    options.prepare = [this](Json body) { return engine_->prepare(std::move(body)); };
    options.run = [this](std::span<const EncodedRecord* const> records) { return engine_->run(records); };
    server_ = std::make_unique<TestServer>(options);
  }
  HttpAnswer post(const std::string& body) { return server_->post("/v1/systemone", body); }
  // The answers to one question set, or null.
  Json answers(const std::string& questions, const std::string& state = "\"The checkout page is down.\"",
               const std::string& model = "clef") {
    const HttpAnswer answer =
        post(R"({"model":")" + model + R"(","state":)" + state + R"(,"questions":{)" + questions + "}}");
    if (answer.status != 200) return {};
    return *parse_json(answer.body).value().find("answers");
  }
  int status(const std::string& questions) {
    return post(R"({"model":"clef","state":"s","questions":{)" + questions + "}}").status;
  }
  TestServer& server() { return *server_; }

 private:
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TestServer> server_;
};

double number(const Json& value) { return *value.if_double(); }

std::vector<double> probabilities(const Json& answer) {
  std::vector<double> numbers;
  for (const auto& [label, probability] : *answer.find("probabilities")->if_object())
    numbers.push_back(number(probability));
  return numbers;
}

bool is_distribution(const std::vector<double>& p) {
  double sum = 0;
  for (const double x : p) {
    if (!std::isfinite(x) || x < 0 || x > 1) return false;
    sum += x;
  }
  return std::abs(sum - 1) <= static_cast<double>(p.size()) * 0.005;
}

std::string choice_of(int options) {
  std::string labels;
  for (int i = 0; i < options; ++i) labels += (i ? ",\"o" : "\"o") + std::to_string(i) + "\":null";
  return R"("q":{"type":"choice","instructions":"Which?","criteria":{)" + labels + "}}";
}

bool choice_works(Model& model, int options) {
  const Json answers = model.answers(choice_of(options));
  if (answers.is_null()) return false;
  const Json& answer = *answers.find("q");
  const auto p = probabilities(answer);
  const auto& labels = *answer.find("probabilities")->if_object();
  const auto best = static_cast<std::size_t>(std::max_element(p.begin(), p.end()) - p.begin());
  bool has_order = true;
  for (std::size_t i = 0; i < labels.size(); ++i) has_order = has_order && labels[i].first == "o" + std::to_string(i);
  const double chosen = number(*answer.find("probabilities")->find(*answer.find("choice")->if_string()));
  return std::ssize(labels) == options && has_order && is_distribution(p) && chosen >= p[best] - 0.01;
}

bool score_works(Model& model, int levels) {
  std::string list;
  for (int i = 0; i < levels; ++i) list += (i ? ",\"level " : "\"level ") + std::to_string(i) + "\"";
  const Json answers = model.answers(R"("q":{"type":"score","instructions":"How?","criteria":[)" + list + "]}");
  if (answers.is_null()) return false;
  const auto p = probabilities(*answers.find("q"));
  double mean = 0;
  for (std::size_t i = 0; i < p.size(); ++i) mean += static_cast<double>(i) * p[i];
  return std::ssize(p) == levels && is_distribution(p) &&
         std::abs(number(*answers.find("q")->find("score")) - mean) <= 0.01 * levels &&
         std::ssize(*answers.find("q")->find("legend")->if_object()) == levels;
}

bool id_works(Model& model, const std::string& id) {
  const Json answers = model.answers("\"" + id + R"(":{"type":"noul","instructions":"Is it?"})");
  return !answers.is_null() && answers.if_object()->size() == 1 && (*answers.if_object())[0].first == id;
}

double noul(Model& model, const std::string& questions, const std::string& id) {
  return number(*model.answers(questions).find(id)->find("noul"));
}

const std::string kIs = R"({"type":"noul","instructions":"Is the checkout down?"})";

struct Rule {
  const char* name;
  bool is_must;
  const char* fails_because;  // null pointer: it passes
  std::function<bool(Model&)> holds;
};

std::vector<Rule> rules() {
  std::vector<Rule> list;
  const auto add = [&](const char* name, bool is_must, const char* why, std::function<bool(Model&)> holds) {
    list.push_back({name, is_must, why, std::move(holds)});
  };
  constexpr bool kMust = true, kShould = false;
  for (const int options : {2, 26, 64, 128, 255}) {
    add("a choice of 2, 26, 64, 128 and 255 options", kMust, nullptr,
        [=](Model& m) { return choice_works(m, options); });
  }
  for (const int levels : {2, 3, 5, 10}) {
    add("a score of 2, 3, 5 and 10 levels", kMust, nullptr, [=](Model& m) { return score_works(m, levels); });
  }
  for (const char* id : {"a question", "질문", "🙂", "a.b-c_d", "0", "true"}) {
    add("any id: spaces, Hangul, emoji", kMust, nullptr, [=](Model& m) { return id_works(m, id); });
  }
  for (const char* instructions :
       {R"("Is it?")", R"({"ask":"Is it?","note":[1,2]})", R"(["Is it?","Really?"])", "null"}) {
    add("instructions: string, object, list, null", kMust, nullptr, [=](Model& m) {
      return m.status(std::string(R"("q":{"type":"noul","instructions":)") + instructions + "}") == 200;
    });
  }
  add("instructions may be missing", kMust, nullptr,
      [](Model& m) { return m.status(R"("q":{"type":"noul"})") == 200; });
  for (const char* description : {R"("text")", R"({"a":1})", R"(["a","b"])", "null"}) {
    add("descriptions: string, object, list, null", kMust, nullptr, [=](Model& m) {
      return m.status(std::string(R"("q":{"type":"choice","criteria":{"x":)") + description + R"(,"y":"z"}})") == 200;
    });
  }
  for (const char* criteria :
       {R"({"true":"yes"})", R"({"false":"no"})", R"({"true":null,"false":"no"})", "{}", "null"}) {
    add("noul criteria with one side, null or none", kMust, nullptr,
        [=](Model& m) { return m.status(std::string(R"("q":{"type":"noul","criteria":)") + criteria + "}") == 200; });
  }
  for (const char* state : {R"("text")", R"({"a":[1,{"b":null}]})", R"([1,"two"])", "null", "3", "true", "\"\""}) {
    add("state: any JSON", kMust, nullptr, [=](Model& m) { return !m.answers("\"q\":" + kIs, state).is_null(); });
  }
  add("jev-latest is served", kMust, nullptr,
      [](Model& m) { return !m.answers("\"q\":" + kIs, "\"s\"", "jev-latest").is_null(); });
  add("an unknown model is 4xx", kMust, nullptr, [](Model& m) {
    return m.post(R"({"model":"gpt","state":1,"questions":{"q":{"type":"noul"}}})").status / 100 == 4;
  });
  for (const char* body :
       {"", "{", "[]", "null", "3", "\xff", R"({"model":"clef"})", R"({"model":"clef","state":1})",
        R"({"state":1,"questions":{"q":{"type":"noul"}}})", R"({"model":"clef","state":1,"questions":{}})",
        R"({"model":"clef","state":1,"questions":{"q":{"type":"maybe"}}})",
        R"({"model":"clef","state":1,"questions":{"q":{"type":"choice","criteria":{"x":1}}}})",
        R"({"model":"clef","state":1,"questions":{"q":{"type":"choice","criteria":["x","y"]}}})",
        R"({"model":"clef","state":1,"questions":{"q":{"type":"score","criteria":["x"]}}})",
        R"({"model":"clef","state":1,"questions":{"q":{"type":"score","criteria":{"0":"x","1":"y"}}}})",
        R"({"model":"clef","state":NaN,"questions":{"q":{"type":"noul"}}})",
        R"({"model":"clef","state":1e999,"questions":{"q":{"type":"noul"}}})"}) {
    add("bad input is 4xx, never 5xx", kMust, nullptr, [=](Model& m) { return m.post(body).status / 100 == 4; });
  }
  add("256 options are 4xx", kMust, nullptr, [](Model& m) { return m.status(choice_of(256)) == 422; });
  add("an error names the field", kMust, nullptr, [](Model& m) {
    return m.post(R"({"model":"clef","state":1,"questions":{"q":{"type":"score","criteria":["x"]}}})")
               .body.find(R"("loc":["body","questions","q","criteria"])") != std::string::npos;
  });
  add("unknown members of the body are ignored", kMust, nullptr, [](Model& m) {
    return m.post(R"({"model":"clef","state":1,"more":{},"questions":{"q":{"type":"noul"}}})").status == 200;
  });
  add("a noul has no confidence", kMust, nullptr,
      [](Model& m) { return m.answers("\"q\":" + kIs).find("q")->find("confidence") == nullptr; });
  add("usage counts whole tokens", kMust, nullptr, [](Model& m) {
    const auto body =
        parse_json(m.post(R"({"model":"clef","state":1,"questions":{"q":{"type":"noul"}}})").body).value();
    return body.find("usage")->find("input_tokens")->if_integer() != nullptr &&
           body.find("usage")->find("output_tokens")->if_integer() != nullptr;
  });
  add("a legend has the levels as they were sent", kMust, nullptr, [](Model& m) {
    const Json answers = m.answers(R"("q":{"type":"score","criteria":["low",{"b":1,"a":2},["x"]]})");
    return to_compact_json(*answers.find("q")->find("legend")) == R"({"0":"low","1":{"b":1,"a":2},"2":["x"]})";
  });
  add("answers keep the order of questions", kMust, nullptr, [](Model& m) {
    const Json answers = m.answers("\"z\":" + kIs + ",\"a\":" + kIs);
    return (*answers.if_object())[0].first == "z" && (*answers.if_object())[1].first == "a";
  });
  add("the same request has the same answer", kMust, nullptr,
      [](Model& m) { return m.answers("\"q\":" + kIs) == m.answers("\"q\":" + kIs); });
  add("/v1/models lists what is served", kMust, nullptr,
      [](Model& m) { return m.server().get("/v1/models").body.find(R"("name":"jev-latest")") != std::string::npos; });
  add("errors carry a request id", kMust, nullptr,
      [](Model& m) { return !m.post("{").field("x-typesafe-request-id").empty(); });
  add("extras are named x_ and stand outside answers", kShould, nullptr, [](Model& m) {
    const auto body = parse_json(m.server().post("/v1/systemone?logits=true", kAsk).body).value();
    return std::all_of(body.if_object()->begin(), body.if_object()->end(), [](const Json::Member& member) {
      return member.first == "model" || member.first == "answers" || member.first == "usage" ||
             member.first.rfind("x_", 0) == 0;
    });
  });
  add("renaming an id changes no answer (the suite allows 0.05)", kMust,
      "a question's id stands in the model's prompt; how far it moves the answer is the weights' affair", [](Model& m) {
        const double asked = noul(m, "\"q\":" + kIs, "q");
        return noul(m, "\"is_it_fine\":" + kIs, "is_it_fine") == asked && noul(m, "\"질문\":" + kIs, "질문") == asked;
      });
  add("another question changes no answer", kShould, "the head decides all questions of a request jointly",
      [](Model& m) {
        return noul(m, "\"q\":" + kIs, "q") ==
               noul(m, "\"q\":" + kIs + "," + R"("r":{"type":"noul","instructions":"Why?"})", "q");
      });
  add("another order of questions changes no answer", kShould, "a later question's tokens follow the earlier ones'",
      [](Model& m) {
        const std::string other = R"("r":{"type":"noul","instructions":"Why?"})";
        return noul(m, "\"q\":" + kIs + "," + other, "q") == noul(m, other + ",\"q\":" + kIs, "q");
      });
  return list;
}

TEST(JevCompat, HoldsButForWhatTheDesignRulesOut) {
  Model model;
  int passed = 0, by_design = 0;
  for (const Rule& rule : rules()) {
    const bool holds = rule.holds(model);
    EXPECT_EQ(holds, rule.fails_because == nullptr) << rule.name;
    ++(rule.fails_because == nullptr ? passed : by_design);
    if (rule.fails_because != nullptr) {
      std::printf("%s rule fails by design: %s, since %s\n", rule.is_must ? "MUST" : "SHOULD", rule.name,
                  rule.fails_because);
    }
  }
  std::printf("%d checks pass, %d fail by design\n", passed, by_design);
}

}  // namespace
}  // namespace clef::server
