// What is wrong with a request's shape, each with the path to it. Runs before the record's own parser, whose checks
// stop at the first and know only of questions.
#pragma once

#include <cstddef>
#include <vector>

#include "server/failure.h"
#include "text/json.h"

namespace clef::server {

struct ShapeLimits {
  std::size_t max_questions = 256;
  std::size_t min_choices = 2, max_choices = 255;
  std::size_t min_levels = 2, max_levels = 10;
  // What the hosted service asks for beyond that: ids of a plain alphabet, instructions that are not empty, and no
  // members that it does not know.
  bool is_hosted = false;
};

ShapeLimits hosted(ShapeLimits limits);

inline constexpr std::size_t kMaxViolations = 16;  // the first ones are told

// Empty when the body may be a request.
std::vector<Violation> check_shape(const Json& body, const ShapeLimits& limits);

}  // namespace clef::server
