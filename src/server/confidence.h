// The four definitions of "confidence" that are in use. Answers carry `max`, the reference's, unless another is asked
// for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "engine/engine.h"
#include "text/json.h"

namespace clef::server {

enum class Confidence : std::uint8_t {
  max,       // the largest probability
  typesafe,  // how far above chance: choice by its largest, score by the spread around its likeliest level
  purity,    // (n * sum p^2 - 1) / (n - 1)
  entropy,   // 1 - H / ln n
};

std::optional<Confidence> confidence_named(std::string_view name);
std::string_view name_of(Confidence confidence);

// Of one question, 0 to 1; 1 when there is a single option. Probabilities in prompt order: of a score that is by level.
double confidence_of(Confidence confidence, QuestionType type, std::span<const double> probabilities);

// Replaces the confidences of a response that respond() wrote.
void set_confidence(Json& response, const Request& request, const Decisions& decisions, Confidence confidence);

}  // namespace clef::server
