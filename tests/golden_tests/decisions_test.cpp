// Whole decisions on text, images and videos: ids, spans, logits, probabilities and answers of the golden records,
// against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "backend/open.h"
#include "engine/engine.h"
#include "support/golden.h"
#include "support/media_requests.h"

namespace clef {
namespace {

using test::golden_lines;
using test::test_data_path;

struct Bounds {
  double logit, probability;
};

std::unique_ptr<Engine> open_engine(const std::string& model) {
  auto device = open_device({.device = "cpu", .num_threads = 2});
  auto engine = Engine::open(test_data_path(model), std::move(device).value(), {});
  if (!engine) throw std::runtime_error(engine.error().message);
  return std::move(engine).value();
}

double number(const Json& value) {
  if (const double* real = value.if_double()) return *real;
  return std::strtod(value.if_integer()->digits.c_str(), nullptr);
}

// The request as a client sends it, media and all.
std::string request_text(const Json& golden) {
  const auto videos = test::videos_of(golden);
  const Json* images = golden.find("images");
  if (videos.empty() && (images == nullptr || !images->is_truthy())) return *golden.find("request_text")->if_string();
  return to_compact_json(test::media_request(golden, videos));
}

void expect_encoding(const Json& golden, const EncodedRecord& record) {
  const Json::Array& ids = *golden.find("input_ids")->if_array();
  ASSERT_EQ(record.input_ids.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(record.input_ids[i], number(ids[i])) << "token " << i;
  const Json::Array& questions = *golden.find("questions")->if_array();
  ASSERT_EQ(record.questions.size(), questions.size());
  for (std::size_t q = 0; q < questions.size(); ++q) {
    const auto expect_span = [](const Json& expected, const Span& span) {
      EXPECT_EQ(static_cast<double>(span.first), number((*expected.if_array())[0]));
      EXPECT_EQ(static_cast<double>(span.end()), number((*expected.if_array())[1]));
    };
    expect_span(*questions[q].find("span"), record.questions[q].span);
    const Json::Array& spans = *questions[q].find("option_spans")->if_array();
    ASSERT_EQ(spans.size(), record.questions[q].option_spans.size());
    for (std::size_t k = 0; k < spans.size(); ++k) expect_span(spans[k], record.questions[q].option_spans[k]);
  }
}

// Answers agree: everything but numbers to the letter. A number may differ in its last digit, and only where the
// golden probabilities put its exact value within 1e-5 of the edge between two roundings. `exact` are those values, in
// the order in which the answer's numbers come.
void expect_same_answer(const Json& expected, const Json& actual, const std::vector<double>& exact, std::size_t& next,
                        const std::string& path) {
  if (const double* golden = expected.if_double(); golden != nullptr && actual.if_double() != nullptr) {
    ASSERT_LT(next, exact.size()) << path;
    const double value = exact[next++];
    ASSERT_NEAR(value, *golden, 0.51e-4) << path << ": the test counts numbers in another order";
    if (*golden == *actual.if_double()) return;
    const double edge = std::abs(value * 1e4 - std::floor(value * 1e4) - 0.5) * 1e-4;
    EXPECT_LE(edge, 1e-5) << path << ": " << value;
    EXPECT_NEAR(*golden, *actual.if_double(), 1.01e-4) << path;
  } else if (const auto* object = expected.if_object()) {
    ASSERT_NE(actual.if_object(), nullptr) << path;
    ASSERT_EQ(object->size(), actual.if_object()->size()) << path;
    for (std::size_t i = 0; i < object->size(); ++i) {
      EXPECT_EQ((*object)[i].first, (*actual.if_object())[i].first) << path;
      if ((*object)[i].first == "legend") {  // the caller's own values
        EXPECT_TRUE((*object)[i].second == (*actual.if_object())[i].second) << path;
        continue;
      }
      expect_same_answer((*object)[i].second, (*actual.if_object())[i].second, exact, next,
                         path + "." + (*object)[i].first);
    }
  } else {
    EXPECT_TRUE(expected == actual) << path << ": " << to_compact_json(expected) << " and " << to_compact_json(actual);
  }
}

// The numbers of an answer before rounding, in the order of its members: docs/usage.md, "The answer".
std::vector<double> exact_numbers(const Request& request, const EncodedRecord& record,
                                  const Json::Array& probabilities) {
  std::vector<double> numbers;
  for (std::size_t q = 0; q < request.questions.size(); ++q) {
    std::map<std::string, double> by_id;
    double largest = 0, score = 0;
    const Json::Array& p = *probabilities[q].if_array();
    for (std::size_t k = 0; k < p.size(); ++k) {
      by_id[record.questions[q].option_ids[k]] = number(p[k]);
      largest = std::max(largest, number(p[k]));
      score += static_cast<double>(k) * number(p[k]);
    }
    if (request.questions[q].type == QuestionType::noul) {
      numbers.push_back(by_id["true"]);
      continue;
    }
    if (request.questions[q].type == QuestionType::score) numbers.push_back(score);
    numbers.push_back(largest);
    for (const std::string& id : request.questions[q].caller_order) numbers.push_back(by_id[id]);
  }
  return numbers;
}

void check_model(const std::string& model, const std::string& goldens, Bounds bounds, int expected_records) {
  const auto engine = open_engine(model);
  double worst_logit = 0, worst_probability = 0;
  int records = 0, same_text = 0;
  for (const Json& golden : golden_lines(goldens)) {
    SCOPED_TRACE(*golden.find("name")->if_string());
    const auto answer = engine->answer(request_text(golden));
    ASSERT_TRUE(answer) << answer.error().message;
    expect_encoding(golden, answer->record);
    const Json::Array& logits = *golden.find("logits")->if_array();
    const Json::Array& probabilities = *golden.find("probabilities")->if_array();
    ASSERT_EQ(answer->decisions.logits.size(), logits.size());
    for (std::size_t q = 0; q < logits.size(); ++q) {
      ASSERT_EQ(answer->decisions.logits[q].size(), logits[q].if_array()->size());
      for (std::size_t k = 0; k < logits[q].if_array()->size(); ++k) {
        const double logit =
            std::abs(static_cast<double>(answer->decisions.logits[q][k]) - number((*logits[q].if_array())[k]));
        const double probability =
            std::abs(answer->decisions.probabilities[q][k] - number((*probabilities[q].if_array())[k]));
        worst_logit = std::max(worst_logit, logit);
        worst_probability = std::max(worst_probability, probability);
      }
    }
    const auto expected = parse_json(*golden.find("response_text")->if_string());
    ASSERT_TRUE(expected);
    std::size_t next = 0;
    const auto exact = exact_numbers(answer->request, answer->record, probabilities);
    expect_same_answer(*expected, answer->response, exact, next, "");
    EXPECT_EQ(next, exact.size());
    same_text += to_compact_json(*expected) == to_compact_json(answer->response) ? 1 : 0;
    ++records;
  }
  EXPECT_EQ(records, expected_records);
  EXPECT_LE(worst_logit, bounds.logit);
  EXPECT_LE(worst_probability, bounds.probability);
  std::printf("%s, %s: %d records, worst logit difference %.2e, probability %.2e, answers equal to the letter %d\n",
              model.c_str(), goldens.c_str(), records, worst_logit, worst_probability, same_text);
}

TEST(Decisions, AgreeOnTextFromASnapshot) { check_model("clef-tiny", "text.jsonl", {5e-5, 1e-5}, 34); }

TEST(Decisions, AgreeOnImages) { check_model("clef-tiny.gguf", "vision.jsonl", {2e-5, 3e-6}, 5); }

TEST(Decisions, AgreeOnVideos) { check_model("clef-tiny", "video.jsonl", {2e-5, 3e-6}, 4); }

// The trained demo model on its own requests.
TEST(Decisions, AgreeForTheDemoModel) { check_model("cleffa-demo.gguf", "demo.jsonl", {1e-4, 1e-5}, 26); }

// Sharp probabilities; text, images and videos, alone and together.
TEST(Decisions, AgreeForTheSecondModel) { check_model("clef-tiny27.gguf", "tiny27.jsonl", {2e-4, 2e-5}, 15); }

}  // namespace
}  // namespace clef
