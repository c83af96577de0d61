// What can go wrong with a request, and how each of the three wires says so.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "server/http_message.h"
#include "text/json.h"

namespace clef::server {

// The shape of answers and errors that a route's clients expect.
enum class Wire : std::uint8_t { systemone, workers, openai };

enum class Kind : std::uint8_t {
  malformed,     // no HTTP request, or no JSON
  invalid,       // JSON that is no valid request
  unauthorized,  // no key, or none that is known
  forbidden,     // a page of an origin that is not allowed
  no_route,
  unknown_model,
  wrong_method,
  slow_client,  // head or body did not arrive in time
  too_large,    // more bytes, or more tokens, than are taken
  head_too_large,
  wrong_encoding,  // of the body
  wrong_expectation,
  rate_limited,  // this key asks for too much
  queue_full,    // all together ask for too much
  not_implemented,
  wrong_version,
  internal,     // the engine or the device failed
  unavailable,  // loading, shutting down, or too many connections
  deadline,     // the answer was not ready in time
};
inline constexpr std::size_t kNumKinds = static_cast<std::size_t>(Kind::deadline) + 1;

int status_of(Kind kind);

// One step on the way to the wrong place: a member's name or a place in a list.
using Step = std::variant<std::string, std::int64_t>;

struct Violation {
  std::vector<Step> path;  // from "body" or "query" on
  std::string message;
  std::string type;  // "missing", "value_error", ...
};

struct Failure {
  Kind kind;
  std::string message;  // for Kind::invalid written from the violations
  std::vector<Violation> violations = {};
  std::optional<std::chrono::milliseconds> retry_after = {};
};

// "questions.a.criteria: need 2 to 255 options", of each violation, joined by "; ".
Failure invalid(std::vector<Violation> violations);

// A failure of the engine's or of the JSON parser's.
Failure failure_of(const Error& error);

// The body of an error alone, as it also stands in the lines of a batch.
Json error_body(const Failure& failure, Wire wire);

// With the fields that belong to its status.
Response error_response(const Failure& failure, Wire wire);

}  // namespace clef::server
