// What is asked: a validated SystemOne request.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "record/media.h"
#include "text/json.h"

namespace clef {

enum class QuestionType : std::uint8_t { noul = 0, choice = 1, score = 2 };  // values are rows of the type embedding

std::string_view name_of(QuestionType type);

struct Option {
  std::string id;
  Json description;  // null: no description
};

struct Question {
  std::string id;
  QuestionType type = QuestionType::noul;
  std::string instructions;     // rendered; the question's id when none were given
  std::vector<Option> options;  // in prompt order: noul true, false; choice sorted by code point; score by level
  std::vector<std::string> caller_order;  // option ids in the order of the caller's criteria, which answers keep
};

struct Request {
  std::string model;  // echoed in the answer
  std::string state;  // rendered
  std::vector<Question> questions;
  RequestMedia media;  // still encoded
};

// Checks run in the reference's order and stop at the first failure: Errc::bad_request, messages as the reference's
// where it has one. Takes the body apart; nothing of it is kept but what the encoder and the answer need.
Result<Request> parse_request(Json body);

}  // namespace clef
