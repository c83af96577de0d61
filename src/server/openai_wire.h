// POST /v1/decisions: the same decisions in OpenAI's shape.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/failure.h"
#include "server/request_check.h"
#include "text/json.h"

namespace clef::server {

inline constexpr std::size_t kMaxOpenAiQuestions = 400;

// What the answer needs to know of one question of the caller's.
struct OpenAiQuestion {
  enum class Type { predicate, choice, score };
  Type type = Type::predicate;
  Json name;                 // null when it has none
  std::string id;            // of the question in the SystemOne body
  std::vector<Json> values;  // of a choice: as sent, string or boolean, in the caller's order
  std::vector<Json> labels;  // of a score's levels
};

struct OpenAiRequest {
  Json body;  // of SystemOne's shape
  std::vector<OpenAiQuestion> questions;
};

// `input` as a string is the state; a list is the state as it stands, but for its pictures, which become `images`.
// predicate is noul; a level with a description is {"label", "description"}.
std::optional<Failure> read_openai(Json body, const ShapeLimits& limits, OpenAiRequest& request);

// From the response that respond() wrote to request.body.
Json openai_response(const OpenAiRequest& request, const Json& response);

}  // namespace clef::server
