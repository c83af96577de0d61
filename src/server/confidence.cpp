#include "server/confidence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace clef::server {
namespace {

constexpr std::pair<std::string_view, Confidence> kNames[] = {{"max", Confidence::max},
                                                              {"typesafe", Confidence::typesafe},
                                                              {"purity", Confidence::purity},
                                                              {"entropy", Confidence::entropy}};

double largest(std::span<const double> p) { return *std::max_element(p.begin(), p.end()); }

// system-one-adapter, confidence_metrics.py: distance to the likeliest level against that of a uniform answer.
double closeness(std::span<const double> p) {
  const auto n = static_cast<double>(p.size());
  const auto mode = static_cast<double>(std::max_element(p.begin(), p.end()) - p.begin());
  double distance = 0, uniform = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const auto level = static_cast<double>(i);
    distance += p[i] * std::abs(level - mode);
    uniform += std::abs(level - (n - 1) / 2) / n;
  }
  return std::max(0.0, 1 - distance / uniform);
}

double purity(std::span<const double> p) {
  const auto n = static_cast<double>(p.size());
  double squares = 0;
  for (const double x : p) squares += x * x;
  return (n * squares - 1) / (n - 1);
}

double order(std::span<const double> p) {
  double entropy = 0;
  for (const double x : p) entropy -= x > 0 ? x * std::log(x) : 0;
  return 1 - entropy / std::log(static_cast<double>(p.size()));
}

}  // namespace

std::optional<Confidence> confidence_named(std::string_view name) {
  for (const auto& [known, confidence] : kNames) {
    if (known == name) return confidence;
  }
  return std::nullopt;
}

std::string_view name_of(Confidence confidence) {
  for (const auto& [name, known] : kNames) {
    if (known == confidence) return name;
  }
  return "";
}

double confidence_of(Confidence confidence, QuestionType type, std::span<const double> probabilities) {
  CHECK(!probabilities.empty());
  if (probabilities.size() == 1) return 1;
  const double chance = 1 / static_cast<double>(probabilities.size());
  double value = 0;
  switch (confidence) {
    case Confidence::max:
      value = largest(probabilities);
      break;
    case Confidence::typesafe:
      value = type == QuestionType::score ? closeness(probabilities) : (largest(probabilities) - chance) / (1 - chance);
      break;
    case Confidence::purity:
      value = purity(probabilities);
      break;
    case Confidence::entropy:
      value = order(probabilities);
      break;
  }
  return std::clamp(value, 0.0, 1.0);  // probabilities are rounded floats: their sum may be off by some 1e-7
}

void set_confidence(Json& response, const Request& request, const Decisions& decisions, Confidence confidence) {
  Json* answers = response.find("answers");
  CHECK(answers != nullptr && answers->if_object() != nullptr);
  CHECK(answers->if_object()->size() == request.questions.size());
  for (std::size_t i = 0; i < request.questions.size(); ++i) {
    Json* stated = (*answers->if_object())[i].second.find("confidence");
    if (stated == nullptr) continue;  // a noul has none
    *stated = round4(confidence_of(confidence, request.questions[i].type, decisions.probabilities[i]));
  }
}

}  // namespace clef::server
