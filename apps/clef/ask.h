// Questions as people type them.
//
//   legible: Is the total legible?                              noul: yes or no
//   team = web | payments (cards too) | data: Who takes it?     choice: options, each with a description or without
//   urgency = later < this week < today: How urgent is it?      score: levels, lowest first
//
// ID, then ':' and the question's text, which ends the line and holds anything. Without ':' the id is the text too.
// Options and levels stand between. '\' before one of : = | < ( ) \ makes it plain there, and so do parentheses for
// : = | < inside them. Spaces around the parts do not count.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json.h"

namespace clef::cli {

// The id, and the question as requests have it. Errc::bad_request: what is wrong, and below it the text with a caret
// under the place.
Result<Json::Member> parse_question(std::string_view text);

// The `questions` of a request; ids must differ.
Result<Json> parse_questions(const std::vector<std::string>& texts);

}  // namespace clef::cli
