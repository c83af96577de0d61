// Whole decisions on text: ids, spans, logits, probabilities and answers of the golden records, against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "backend/open.h"
#include "engine/engine.h"
#include "support/golden.h"

namespace clef {
namespace {

using test::golden_lines;
using test::test_data_path;

struct Bounds {
  double logit, probability;
};

std::unique_ptr<Engine> open_engine(const std::string& model) {
  auto device = open_device({.num_threads = 2});
  auto engine = Engine::open(test_data_path(model), std::move(device).value(), {});
  if (!engine) throw std::runtime_error(engine.error().message);
  return std::move(engine).value();
}

double number(const Json& value) {
  if (const double* real = value.if_double()) return *real;
  return std::strtod(value.if_integer()->digits.c_str(), nullptr);
}

bool has_media(const Json& record) {
  for (const char* key : {"images", "videos"}) {
    const Json* list = record.find(key);
    if (list != nullptr && list->is_truthy()) return true;
  }
  return false;
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

// Answers agree: everything but numbers to the letter, numbers within what a probability may be off plus a rounding.
void expect_same_answer(const Json& expected, const Json& actual, double tolerance, const std::string& path) {
  if (expected.if_double() != nullptr && actual.if_double() != nullptr) {
    EXPECT_NEAR(*expected.if_double(), *actual.if_double(), tolerance) << path;
  } else if (const auto* object = expected.if_object()) {
    ASSERT_NE(actual.if_object(), nullptr) << path;
    ASSERT_EQ(object->size(), actual.if_object()->size()) << path;
    for (std::size_t i = 0; i < object->size(); ++i) {
      EXPECT_EQ((*object)[i].first, (*actual.if_object())[i].first) << path;
      expect_same_answer((*object)[i].second, (*actual.if_object())[i].second, tolerance, path + "." + (*object)[i].first);
    }
  } else {
    EXPECT_TRUE(expected == actual) << path << ": " << to_compact_json(expected) << " and " << to_compact_json(actual);
  }
}

void check_model(const std::string& model, const std::string& goldens, Bounds bounds) {
  const auto engine = open_engine(model);
  double worst_logit = 0, worst_probability = 0;
  int records = 0, same_text = 0;
  for (const Json& golden : golden_lines(goldens)) {
    if (has_media(golden)) continue;
    SCOPED_TRACE(*golden.find("name")->if_string());
    const auto answer = engine->answer(*golden.find("request_text")->if_string());
    ASSERT_TRUE(answer) << answer.error().message;
    expect_encoding(golden, answer->record);
    const Json::Array& logits = *golden.find("logits")->if_array();
    const Json::Array& probabilities = *golden.find("probabilities")->if_array();
    ASSERT_EQ(answer->decisions.logits.size(), logits.size());
    for (std::size_t q = 0; q < logits.size(); ++q) {
      ASSERT_EQ(answer->decisions.logits[q].size(), logits[q].if_array()->size());
      for (std::size_t k = 0; k < logits[q].if_array()->size(); ++k) {
        const double logit = std::abs(static_cast<double>(answer->decisions.logits[q][k]) - number((*logits[q].if_array())[k]));
        const double probability =
            std::abs(answer->decisions.probabilities[q][k] - number((*probabilities[q].if_array())[k]));
        worst_logit = std::max(worst_logit, logit);
        worst_probability = std::max(worst_probability, probability);
      }
    }
    const auto expected = parse_json(*golden.find("response_text")->if_string());
    ASSERT_TRUE(expected);
    // A score is a sum of up to 10 probabilities times their level.
    expect_same_answer(*expected, answer->response, 1.5e-4, "");
    same_text += to_compact_json(*expected) == to_compact_json(answer->response) ? 1 : 0;
    ++records;
  }
  EXPECT_LE(worst_logit, bounds.logit);
  EXPECT_LE(worst_probability, bounds.probability);
  std::printf("%s: %d records, worst logit difference %.2e, probability %.2e, answers equal to the letter %d\n",
              model.c_str(), records, worst_logit, worst_probability, same_text);
}

TEST(TextDecisions, AgreeWithTheReferenceFromASnapshot) { check_model("clef-tiny", "text.jsonl", {5e-5, 1e-5}); }

TEST(TextDecisions, AgreeWithTheReferenceForSharpProbabilities) {
  check_model("clef-tiny27.gguf", "tiny27.jsonl", {2e-4, 2e-5});
}

}  // namespace
}  // namespace clef
