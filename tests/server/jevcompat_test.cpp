// The 48 rules of the jevcompat suite (specification 0.1), restated under its names: each passes, or fails by design,
// for the reason that stands beside it. A rule that fails by design is held to failing, so that the table stays true.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "backend/open.h"
#include "server_fixture.h"
#include "support/golden.h"

namespace clef::server {
namespace {

using test::HttpAnswer;

constexpr double kRounding = 0.5e-4;  // of numbers with four decimals

// A server with the tiny model, with and without keys. Remembers what it was asked: the same request has the same
// answer.
class Model {
 public:
  Model() {
    auto device = open_device({.device = "cpu", .num_threads = 2});
    engine_ = Engine::open(test::test_data_path("clef-tiny"), std::move(device).value(), EngineOptions()).value();
    FixtureOptions options = fixture_options();
    options.prepare = [this](Json body) { return engine_->prepare(std::move(body)); };
    options.run = [this](std::span<const EncodedRecord* const> records) { return engine_->run(records); };
    open_ = std::make_unique<TestServer>(options);
    options.keys = "a secret-key\n";
    keyed_ = std::make_unique<TestServer>(options);
  }

  const HttpAnswer& post(const std::string& body, const std::string& query = "") {
    const auto known = answers_.find(query + body);
    if (known != answers_.end()) return known->second;
    return answers_.emplace(query + body, open_->post("/v1/systemone" + query, body)).first->second;
  }
  static std::string body_of(const std::string& questions, const std::string& state = "\"The checkout page is down.\"",
                             const std::string& model = "clef") {
    return R"({"model":")" + model + R"(","state":)" + state + R"(,"questions":{)" + questions + "}}";
  }
  int status(const std::string& questions) { return post(body_of(questions)).status; }
  bool takes(const std::string& questions) { return status(questions) == 200; }
  // The response to one question set, or null.
  Json response(const std::string& questions, const std::string& query = "") {
    const HttpAnswer& answer = post(body_of(questions), query);
    return answer.status == 200 ? parse_json(answer.body).value() : Json();
  }
  Json answer(const std::string& questions, const std::string& id = "q", const std::string& query = "") {
    const Json found = response(questions, query);
    return found.is_null() ? Json() : *found.find("answers")->find(id);
  }
  TestServer& open() { return *open_; }
  TestServer& keyed() { return *keyed_; }

 private:
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TestServer> open_, keyed_;
  std::map<std::string, HttpAnswer> answers_;
};

double number(const Json& value) { return *value.if_double(); }

std::string id_of(const std::string& id, const std::string& question) { return "\"" + id + "\":" + question; }

const std::string kIs = R"({"type":"noul","instructions":"Is the checkout down?"})";
const std::string kNoul = id_of("q", kIs);
const std::string kOther = R"("r":{"type":"noul","instructions":"Why?"})";

std::string choice_of(int options) {
  std::string labels;
  for (int i = 0; i < options; ++i) labels += (i ? ",\"o" : "\"o") + std::to_string(i) + "\":null";
  return R"("q":{"type":"choice","instructions":"Which?","criteria":{)" + labels + "}}";
}

std::string score_of(int levels) {
  std::string list;
  for (int i = 0; i < levels; ++i) list += (i ? ",\"level " : "\"level ") + std::to_string(i) + "\"";
  return R"("q":{"type":"score","instructions":"How?","criteria":[)" + list + "]}";
}

const std::string kMixed = kNoul +
                           R"(,"c":{"type":"choice","instructions":"Which?","criteria":{"x":"one","y":null}},)"
                           R"("s":{"type":"score","instructions":"How?","criteria":["low",{"b":1,"a":2},["x"]]})";

// Every number, wherever it stands.
void all_numbers(const Json& value, std::vector<double>& numbers) {
  if (const double* real = value.if_double()) numbers.push_back(*real);
  if (const Json::Array* list = value.if_array()) {
    for (const Json& element : *list) all_numbers(element, numbers);
  }
  if (const Json::Object* object = value.if_object()) {
    for (const auto& [name, member] : *object) all_numbers(member, numbers);
  }
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : *object.if_object()) keys.push_back(key);
  return keys;
}

std::vector<double> probabilities(const Json& answer) {
  std::vector<double> numbers;
  for (const auto& [label, probability] : *answer.find("probabilities")->if_object()) {
    numbers.push_back(number(probability));
  }
  return numbers;
}

bool is_distribution(const Json& answer) {
  const auto p = probabilities(answer);
  double sum = 0;
  for (const double x : p) {
    if (!std::isfinite(x) || x < 0 || x > 1) return false;
    sum += x;
  }
  return std::abs(sum - 1) <= std::max(0.05, static_cast<double>(p.size()) * kRounding);
}

bool has_numbered_keys(const Json& object, int count) {
  std::vector<std::string> expected;
  for (int i = 0; i < count; ++i) expected.push_back(std::to_string(i));
  return keys_of(object) == expected;
}

bool is_in_unit_range(const Json* value) {
  return value != nullptr && value->if_double() != nullptr && number(*value) >= 0 && number(*value) <= 1;
}

// Both halves of TypeSafe's definition: docs/server.md, "confidence".
bool is_typesafe_confidence(Model& model, const std::string& query) {
  const auto c = model.answer(choice_of(26), "q", query), s = model.answer(score_of(5), "q", query);
  const auto pc = probabilities(c), ps = probabilities(s);
  const double chance = 1.0 / static_cast<double>(pc.size());
  const double of_choice = (*std::max_element(pc.begin(), pc.end()) - chance) / (1 - chance);
  const auto best = std::max_element(ps.begin(), ps.end()) - ps.begin();
  double distance = 0, uniform = 0;
  for (int i = 0; i < 5; ++i) {
    distance += ps[static_cast<std::size_t>(i)] * std::abs(static_cast<double>(i - best));
    uniform += std::abs(i - 2.0) / 5;
  }
  const double of_score = std::max(0.0, 1 - distance / uniform);
  return std::abs(number(*c.find("confidence")) - of_choice) <= 0.005 &&
         std::abs(number(*s.find("confidence")) - of_score) <= 0.005;
}

bool is_error_of(const HttpAnswer& answer, int status, const std::string& type) {
  const auto body = parse_json(answer.body);
  if (!body || answer.status != status || body->find("detail") == nullptr) return false;
  const Json* found = body->find("detail")->find("error_type");
  const Json* message = body->find("detail")->find("message");
  return found != nullptr && *found == Json(type) && message != nullptr && message->if_string() != nullptr;
}

const std::vector<std::string>& bad_bodies() {
  static const std::vector<std::string> bodies = {
      "",
      "{",
      "[]",
      "null",
      "3",
      "\xff",
      R"({"model":"clef"})",
      R"({"model":"clef","state":1})",
      R"({"model":"clef","questions":{"q":{"type":"noul"}}})",
      R"({"state":1,"questions":{"q":{"type":"noul"}}})",
      R"({"model":"clef","state":1,"questions":{}})",
      R"({"model":"clef","state":1,"questions":[]})",
      R"({"model":"clef","state":1,"questions":{"q":{}}})",
      R"({"model":"clef","state":1,"questions":{"q":null}})",
      R"({"model":"clef","state":1,"questions":{"q":{"type":"boolean"}}})",
      R"({"model":"clef","state":1,"questions":{"q":{"type":7}}})",
      R"({"model":"clef","state":1,"questions":{"q":{"type":"choice"}}})",
      R"({"model":"clef","state":1,"questions":{"q":{"type":"choice","criteria":{}}}})",
      R"({"model":"clef","state":1,"questions":{"q":{"type":"choice","criteria":{"x":1}}}})",
      R"({"model":"clef","state":1,"questions":{"q":{"type":"choice","criteria":["x","y"]}}})",
      R"({"model":"clef","state":1,"questions":{"q":{"type":"score","criteria":[]}}})",
      R"({"model":"clef","state":1,"questions":{"q":{"type":"score","criteria":["x"]}}})",
      R"({"model":"clef","state":1,"questions":{"q":{"type":"score","criteria":"xyz"}}})",
      R"({"model":"clef","state":1,"questions":{"q":{"type":"noul","criteria":["x"]}}})",
      R"({"model":"clef","state":NaN,"questions":{"q":{"type":"noul"}}})",
      R"({"model":"clef","state":1e999,"questions":{"q":{"type":"noul"}}})",
      R"({"model":"gpt","state":1,"questions":{"q":{"type":"noul"}}})",
      R"({"model":"clef","state":1,"images":["nothing"],"questions":{"q":{"type":"noul"}}})",
      Model::body_of(choice_of(256)),
      Model::body_of(score_of(11)),
      R"({"model":"clef","state":)" + std::string(600, '[') + std::string(600, ']') + R"(,"questions":{}})",
  };
  return bodies;
}

struct Rule {
  const char* name;
  bool is_must;
  const char* fails_because;  // null pointer: it passes
  std::function<bool(Model&)> holds;
};

constexpr bool kMust = true, kShould = false;
using Rules = std::vector<Rule>;

void add_transport_and_keys(Rules& list) {
  list.push_back({"http.endpoint", kMust, nullptr, [](Model& m) { return m.takes(kNoul); }});
  list.push_back({"http.json", kMust, nullptr, [](Model& m) { return !m.response(kMixed).is_null(); }});
  list.push_back({"http.content-type", kShould, nullptr, [](Model& m) {
                    const auto is_json = [](const HttpAnswer& answer) {
                      return answer.field("content-type").rfind("application/json", 0) == 0;
                    };
                    return is_json(m.post(Model::body_of(kNoul))) && is_json(m.post("{")) &&
                           is_json(m.open().get("/nothing")) && is_json(m.open().get("/v1/systemone")) &&
                           is_json(m.open().get("/v1/models"));
                  }});
  list.push_back({"http.models", kShould, nullptr, [](Model& m) {
                    const auto answer = m.open().get("/v1/models");
                    const Json body = parse_json(answer.body).value();
                    const Json& first = (*body.find("models")->if_array()).at(0);
                    return answer.status == 200 && !first.find("name")->if_string()->empty() &&
                           first.find("description")->if_string() != nullptr &&
                           first.find("release_date")->if_string()->size() == 10;
                  }});
  const std::string body = Model::body_of(kNoul);
  list.push_back({"auth.ignored-when-off", kMust, nullptr, [body](Model& m) {
                    return m.open().post("/v1/systemone", body, {"Authorization: Bearer any"}).status == 200;
                  }});
  list.push_back({"auth.bearer", kMust, nullptr, [body](Model& m) {
                    return m.keyed().post("/v1/systemone", body, {"Authorization: Bearer secret-key"}).status == 200;
                  }});
  list.push_back({"auth.missing", kShould, nullptr, [body](Model& m) {
                    return is_error_of(m.keyed().post("/v1/systemone", body), 401, "authentication_error");
                  }});
  list.push_back({"auth.invalid", kShould, nullptr, [body](Model& m) {
                    return is_error_of(m.keyed().post("/v1/systemone", body, {"Authorization: Bearer secret-kez"}), 401,
                                       "authentication_error");
                  }});
}

void add_requests(Rules& list) {
  for (const char* state : {R"("text")", R"({"a":[1,{"b":null}]})", R"([1,"two"])", "null", "3", "true", "\"\""}) {
    list.push_back({"request.state", kMust, nullptr,
                    [=](Model& m) { return m.post(Model::body_of(kNoul, state)).status == 200; }});
  }
  list.push_back({"request.model-alias", kMust, nullptr,
                  [](Model& m) { return m.post(Model::body_of(kNoul, "\"s\"", "jev-latest")).status == 200; }});
  list.push_back({"request.multi", kMust, nullptr, [](Model& m) {
                    return keys_of(*m.response(kMixed).find("answers")) == std::vector<std::string>{"q", "c", "s"};
                  }});
  for (const std::string id : {"a question", "a-b", "a.b-c_d", "질문", "🙂", "0", "true", " "}) {
    list.push_back({"request.question-ids", kMust, nullptr, [=](Model& m) {
                      const Json found = m.response(id_of(id, kIs));
                      return !found.is_null() && keys_of(*found.find("answers")) == std::vector<std::string>{id};
                    }});
  }
  list.push_back(
      {"request.unicode", kMust, nullptr, [](Model& m) {
         const Json answer = m.answer(
             R"("q":{"type":"choice","instructions":"어느 쪽? 🙂","criteria":{"네":"맞다","아니오 🙅":null,"e\u0301":"é"}})");
         return keys_of(*answer.find("probabilities")) == std::vector<std::string>{"네", "아니오 🙅", "e\u0301"} &&
                m.post(Model::body_of(kNoul, R"("결제 페이지가 멈췄다 🙂")")).status == 200;
       }});
  list.push_back(
      {"request.unknown-fields", kShould, nullptr, [](Model& m) {
         return m.post(R"({"model":"clef","state":1,"x_nonce":{},"questions":{"q":{"type":"noul"}}})").status == 200;
       }});
  for (const std::string text : {R"("Is it?")", R"({"ask":"Is it?","note":[1,2]})", R"(["Is it?","Really?"])"}) {
    list.push_back({"request.structured-text", kMust, nullptr, [=](Model& m) {
                      return m.takes(R"("q":{"type":"noul","instructions":)" + text + R"(,"criteria":{"true":)" + text +
                                     "}}") &&
                             m.takes(R"("q":{"type":"choice","criteria":{"x":)" + text + R"(,"y":"z"}})") &&
                             m.takes(R"("q":{"type":"score","criteria":["low",)" + text + "]}");
                    }});
  }
  list.push_back({"noul.criteria", kMust, nullptr, [](Model& m) { return m.takes(kNoul); }});
  for (const std::string criteria :
       {R"({"true":"yes","false":"no"})", R"({"true":"yes"})", R"({"false":"no"})", "{}", "null"}) {
    list.push_back({"noul.criteria", kMust, nullptr,
                    [=](Model& m) { return m.takes(R"("q":{"type":"noul","criteria":)" + criteria + "}"); }});
  }
  list.push_back({"noul.no-instructions", kShould, nullptr, [](Model& m) {
                    return m.takes(R"("q":{"type":"noul"})") && m.takes(R"("q":{"type":"noul","instructions":null})");
                  }});
  list.push_back({"choice.null-description", kMust, nullptr, [](Model& m) { return m.takes(choice_of(2)); }});
  for (const int options : {2, 3, 26, 64, 128, 255}) {
    list.push_back({"choice.options", kMust, nullptr, [=](Model& m) { return m.takes(choice_of(options)); }});
  }
  for (const int levels : {2, 3, 5, 10}) {
    list.push_back({"score.levels", kMust, nullptr, [=](Model& m) { return m.takes(score_of(levels)); }});
  }
  list.push_back({"score.map-rejected", kShould, nullptr,
                  [](Model& m) { return m.status(R"("q":{"type":"score","criteria":{"0":"x","1":"y"}})") == 422; }});
}

void add_responses(Rules& list) {
  list.push_back({"response.envelope", kMust, nullptr, [](Model& m) {
                    const Json body = m.response(kMixed);
                    return body.find("model")->if_string() != nullptr && body.find("answers")->if_object() != nullptr &&
                           body.find("usage")->if_object() != nullptr;
                  }});
  list.push_back({"response.usage", kMust, nullptr, [](Model& m) {
                    const Json usage = *m.response(kMixed).find("usage");
                    const auto is_count = [](const Json* value) {
                      return value != nullptr && value->if_integer() != nullptr &&
                             value->if_integer()->digits[0] != '-';
                    };
                    return is_count(usage.find("input_tokens")) && is_count(usage.find("output_tokens"));
                  }});
  list.push_back({"response.answer-ids", kMust, nullptr, [](Model& m) {
                    return keys_of(*m.response(id_of("z", kIs) + "," + id_of("a", kIs)).find("answers")) ==
                           std::vector<std::string>{"z", "a"};
                  }});
  list.push_back({"response.answer-type", kMust, nullptr, [](Model& m) {
                    return *m.answer(kMixed, "q").find("type") == Json("noul") &&
                           *m.answer(kMixed, "c").find("type") == Json("choice") &&
                           *m.answer(kMixed, "s").find("type") == Json("score");
                  }});
  list.push_back({"response.finite", kMust, nullptr, [](Model& m) {
                    std::vector<double> numbers;
                    for (const std::string& asked : {kMixed, choice_of(255), score_of(10)}) {
                      all_numbers(m.response(asked), numbers);
                    }
                    return numbers.size() > 270 &&
                           std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
                  }});
  list.push_back({"response.extensions", kShould, nullptr, [](Model& m) {
                    const std::set<std::string> known = {"model",  "answers",       "usage",      "type",   "noul",
                                                         "choice", "probabilities", "confidence", "legend", "score"};
                    const Json body = m.response(kMixed, "?logits=true");
                    auto names = keys_of(body);
                    for (const auto& [id, answer] : *body.find("answers")->if_object()) {
                      for (const std::string& name : keys_of(answer)) names.push_back(name);
                    }
                    return body.find("x_logits") != nullptr &&
                           std::all_of(names.begin(), names.end(), [&](const std::string& name) {
                             return known.count(name) == 1 || name.rfind("x_", 0) == 0;
                           });
                  }});
  list.push_back({"noul.answer", kMust, nullptr, [](Model& m) {
                    const Json answer = m.answer(kMixed, "q");
                    return is_in_unit_range(answer.find("noul")) && answer.find("confidence") == nullptr;
                  }});
  for (const int n : {2, 26, 255}) {
    list.push_back({"choice.answer", kMust, nullptr, [=](Model& m) {
                      const Json a = m.answer(choice_of(n));
                      return a.find("choice")->if_string() != nullptr &&
                             a.find("probabilities")->if_object() != nullptr &&
                             a.find("confidence")->if_double() != nullptr;
                    }});
    list.push_back({"choice.probability-keys", kMust, nullptr, [=](Model& m) {
                      std::vector<std::string> expected;
                      for (int i = 0; i < n; ++i) expected.push_back("o" + std::to_string(i));
                      return keys_of(*m.answer(choice_of(n)).find("probabilities")) == expected;
                    }});
    list.push_back(
        {"choice.distribution", kMust, nullptr, [=](Model& m) { return is_distribution(m.answer(choice_of(n))); }});
    list.push_back({"choice.argmax", kMust, nullptr, [=](Model& m) {
                      const Json a = m.answer(choice_of(n));
                      const auto p = probabilities(a);
                      return number(*a.find("probabilities")->find(*a.find("choice")->if_string())) >=
                             *std::max_element(p.begin(), p.end()) - 0.005;
                    }});
  }
  for (const int n : {2, 5, 10}) {
    list.push_back({"score.answer", kMust, nullptr, [=](Model& m) {
                      const Json a = m.answer(score_of(n));
                      return a.find("score")->if_double() != nullptr && a.find("legend")->if_object() != nullptr &&
                             a.find("probabilities")->if_object() != nullptr &&
                             a.find("confidence")->if_double() != nullptr;
                    }});
    list.push_back({"score.probability-keys", kMust, nullptr,
                    [=](Model& m) { return has_numbered_keys(*m.answer(score_of(n)).find("probabilities"), n); }});
    list.push_back(
        {"score.distribution", kMust, nullptr, [=](Model& m) { return is_distribution(m.answer(score_of(n))); }});
    list.push_back({"score.expectation", kMust, nullptr, [=](Model& m) {
                      const Json a = m.answer(score_of(n));
                      const auto p = probabilities(a);
                      double mean = 0;
                      for (std::size_t i = 0; i < p.size(); ++i) mean += static_cast<double>(i) * p[i];
                      return std::abs(number(*a.find("score")) - mean) <= 0.02 + kRounding * (1 + n * (n - 1) / 2.0);
                    }});
    list.push_back({"confidence.range", kMust, nullptr, [=](Model& m) {
                      return is_in_unit_range(m.answer(score_of(n)).find("confidence")) &&
                             is_in_unit_range(m.answer(kMixed, "c").find("confidence"));
                    }});
  }
  list.push_back({"score.legend", kMust, nullptr, [](Model& m) {
                    return to_compact_json(*m.answer(kMixed, "s").find("legend")) ==
                           R"({"0":"low","1":{"b":1,"a":2},"2":["x"]})";
                  }});
  list.push_back({"confidence.formula", kShould, "the default is the model's reference, the largest probability",
                  [](Model& m) { return is_typesafe_confidence(m, ""); }});
  list.push_back({"confidence.formula, with ?confidence=typesafe", kShould, nullptr,
                  [](Model& m) { return is_typesafe_confidence(m, "?confidence=typesafe"); }});
}

void add_errors(Rules& list) {
  for (const std::string& body : bad_bodies()) {
    list.push_back(
        {"errors.json", kShould, nullptr, [body](Model& m) { return parse_json(m.post(body).body).has_value(); }});
    list.push_back({"errors.no-5xx", kMust, nullptr, [body](Model& m) { return m.post(body).status < 500; }});
    list.push_back(
        {"errors.reject-invalid", kShould, nullptr, [body](Model& m) { return m.post(body).status / 100 == 4; }});
  }
  list.push_back({"errors.validation-shape", kShould, nullptr, [](Model& m) {
                    const HttpAnswer& answer = m.post(Model::body_of(score_of(1)));
                    const Json body = parse_json(answer.body).value();
                    const Json& first = (*body.find("detail")->if_array()).at(0);
                    return answer.status == 422 &&
                           to_compact_json(*first.find("loc")) == R"(["body","questions","q","criteria"])" &&
                           first.find("msg")->if_string() != nullptr && first.find("type")->if_string() != nullptr;
                  }});
  list.push_back({"errors.shape", kShould, nullptr, [](Model& m) {
                    return is_error_of(m.post("{"), 400, "bad_request_error") &&
                           is_error_of(m.open().get("/nothing"), 404, "not_found_error") &&
                           is_error_of(m.open().get("/v1/systemone"), 405, "method_not_allowed_error");
                  }});
}

void add_meaning(Rules& list) {
  const auto noul = [](Model& m, const std::string& questions, const std::string& id) {
    return number(*m.answer(questions, id).find("noul"));
  };
  list.push_back({"semantics.question-id", kMust,
                  "a question's id stands in the model's prompt; how far it moves the answer is the weights' affair",
                  [=](Model& m) {
                    const double asked = noul(m, kNoul, "q");
                    return noul(m, id_of("is_it_fine", kIs), "is_it_fine") == asked &&
                           noul(m, id_of("질문", kIs), "질문") == asked;
                  }});
  list.push_back({"semantics.batching", kShould, "the head decides all questions of a request jointly",
                  [=](Model& m) { return noul(m, kNoul, "q") == noul(m, kNoul + "," + kOther, "q"); }});
  list.push_back({"semantics.question-order", kShould, "a later question's tokens follow the earlier ones'",
                  [=](Model& m) { return noul(m, kNoul + "," + kOther, "q") == noul(m, kOther + "," + kNoul, "q"); }});
}

constexpr const char* kNotHere = "dropin.sdk-python";  // tests/clients has the official client for JavaScript instead

TEST(JevCompat, HoldsButForWhatTheDesignRulesOut) {
  Rules rules;
  for (const auto add : {add_transport_and_keys, add_requests, add_responses, add_errors, add_meaning}) add(rules);
  Model model;
  std::map<std::string, bool> musts;  // names
  std::set<std::string> by_design;
  for (const Rule& rule : rules) {
    EXPECT_EQ(rule.holds(model), rule.fails_because == nullptr) << rule.name;
    const std::string name = rule.name;
    if (name.find(',') == std::string::npos) musts[name] = rule.is_must;
    if (rule.fails_because == nullptr) continue;
    by_design.insert(name);
    std::printf("%s %s fails by design: %s\n", rule.is_must ? "MUST" : "SHOULD", rule.name, rule.fails_because);
  }
  std::printf("NOT tried here: MUST %s\n", kNotHere);
  const auto must_count = std::count_if(musts.begin(), musts.end(), [](const auto& rule) { return rule.second; });
  EXPECT_EQ(musts.size() + 1, 48U);  // the suite's, kNotHere among them
  EXPECT_EQ(must_count + 1, 33);
  std::printf("%zu checks of %zu rules (%td MUST): %zu rules pass, %zu fail by design\n", rules.size(), musts.size(),
              must_count, musts.size() - by_design.size(), by_design.size());
}

}  // namespace
}  // namespace clef::server
