#include "record/respond.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"

namespace clef {
namespace {

using Probabilities = std::span<const double>;  // of one question, in prompt order

Json noul_answer(Probabilities probabilities) {
  return Json::Object{{"type", "noul"}, {"noul", round4(probabilities[0])}};
}

Json choice_answer(const Question& question, Probabilities probabilities) {
  Json::Object rounded;
  rounded.reserve(question.caller_order.size());
  const std::string* choice = nullptr;
  double confidence = 0;
  for (const std::string& id : question.caller_order) {
    const auto option = std::lower_bound(question.options.begin(), question.options.end(), id,
                                         [](const Option& a, const std::string& b) { return a.id < b; });
    CHECK(option != question.options.end() && option->id == id);
    const double probability = probabilities[static_cast<std::size_t>(option - question.options.begin())];
    if (choice == nullptr || probability > confidence) choice = &id, confidence = probability;
    rounded.emplace_back(id, round4(probability));
  }
  CHECK(choice != nullptr);
  return Json::Object{{"type", "choice"},
                      {"choice", *choice},
                      {"confidence", round4(confidence)},
                      {"probabilities", std::move(rounded)}};
}

// sum() of floats as CPython 3.12 does it: Neumaier's compensated sum.
double expected_level(Probabilities probabilities) {
  double sum = 0, compensation = 0;
  for (std::size_t level = 0; level < probabilities.size(); ++level) {
    const double term = static_cast<double>(level) * probabilities[level];
    const double next = sum + term;
    compensation += std::fabs(sum) >= std::fabs(term) ? (sum - next) + term : (term - next) + sum;
    sum = next;
  }
  return compensation != 0 && std::isfinite(compensation) ? sum + compensation : sum;
}

Json score_answer(const Question& question, Probabilities probabilities) {
  Json::Object legend, rounded;
  legend.reserve(question.options.size());
  rounded.reserve(question.options.size());
  for (std::size_t level = 0; level < question.options.size(); ++level) {
    const Option& option = question.options[level];
    legend.emplace_back(option.id, option.description);
    rounded.emplace_back(option.id, round4(probabilities[level]));
  }
  return Json::Object{{"type", "score"},
                      {"score", round4(expected_level(probabilities))},
                      {"confidence", round4(*std::max_element(probabilities.begin(), probabilities.end()))},
                      {"legend", std::move(legend)},
                      {"probabilities", std::move(rounded)}};
}

Json answer(const Question& question, Probabilities probabilities) {
  CHECK(!question.options.empty() && probabilities.size() == question.options.size(), "{} probabilities for {} options",
        probabilities.size(), question.options.size());
  switch (question.type) {
    case QuestionType::noul:
      return noul_answer(probabilities);
    case QuestionType::choice:
      return choice_answer(question, probabilities);
    case QuestionType::score:
      return score_answer(question, probabilities);
  }
  return {};
}

double shortest_as_double(float value) {
  if (!std::isfinite(value)) return value;
  std::array<char, 32> buffer;
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  CHECK(error == std::errc());
  double nearest = value;
  std::from_chars(buffer.data(), end, nearest);
  return static_cast<float>(nearest) == value ? nearest : value;
}

}  // namespace

Json respond(const Request& request, const EncodedRecord& record, const Decisions& decisions) {
  CHECK(decisions.probabilities.size() == request.questions.size(), "{} decisions for {} questions",
        decisions.probabilities.size(), request.questions.size());
  Json::Object answers;
  answers.reserve(request.questions.size());
  for (std::size_t i = 0; i < request.questions.size(); ++i) {
    answers.emplace_back(request.questions[i].id, answer(request.questions[i], decisions.probabilities[i]));
  }
  return Json::Object{{"model", request.model},
                      {"answers", std::move(answers)},
                      {"usage", Json::Object{{"input_tokens", static_cast<std::int64_t>(record.input_ids.size())},
                                             {"output_tokens", 0}}}};
}

Json logits_by_option(const EncodedRecord& record, const Decisions& decisions) {
  CHECK(decisions.logits.size() == record.questions.size(), "{} decisions for {} questions", decisions.logits.size(),
        record.questions.size());
  Json::Object questions;
  questions.reserve(record.questions.size());
  for (std::size_t i = 0; i < record.questions.size(); ++i) {
    const EncodedQuestion& question = record.questions[i];
    const std::vector<float>& logits = decisions.logits[i];
    CHECK(logits.size() == question.option_ids.size(), "{} logits for {} options", logits.size(),
          question.option_ids.size());
    Json::Object options;
    options.reserve(logits.size());
    for (std::size_t k = 0; k < logits.size(); ++k) {
      options.emplace_back(question.option_ids[k], shortest_as_double(logits[k]));
    }
    questions.emplace_back(question.id, std::move(options));
  }
  return questions;
}

}  // namespace clef
