#include "server/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/whole_number.h"

namespace clef::server {
namespace {

struct KindRow {
  Kind kind;
  int status;
  std::string_view error_type;  // TypeSafe's "error_type"
  int workers_status, workers_code;
  std::string_view openai_type;
};

// The one table of statuses. Workers AI's codes: 5006 is chosen by the violation, see workers_code_of.
constexpr std::array<KindRow, kNumKinds> kKinds = {{
    {Kind::malformed, 400, "bad_request_error", 400, 6003, "invalid_request_error"},
    {Kind::invalid, 422, "validation_error", 422, 5012, "invalid_request_error"},
    {Kind::unauthorized, 401, "authentication_error", 401, 10000, "authentication_error"},
    {Kind::forbidden, 403, "permission_error", 403, 10000, "permission_error"},
    {Kind::no_route, 404, "not_found_error", 400, 7000, "not_found_error"},
    {Kind::unknown_model, 404, "not_found_error", 400, 7000, "not_found_error"},
    {Kind::wrong_method, 405, "method_not_allowed_error", 405, 7000, "invalid_request_error"},
    {Kind::slow_client, 408, "request_timeout_error", 408, 3007, "timeout_error"},
    {Kind::too_large, 413, "request_too_large_error", 413, 5021, "invalid_request_error"},
    {Kind::head_too_large, 431, "request_too_large_error", 431, 5021, "invalid_request_error"},
    {Kind::wrong_encoding, 415, "unsupported_media_type_error", 415, 6003, "invalid_request_error"},
    {Kind::wrong_expectation, 417, "expectation_failed_error", 417, 6003, "invalid_request_error"},
    {Kind::rate_limited, 429, "rate_limit_error", 429, 3040, "rate_limit_error"},
    {Kind::queue_full, 429, "overloaded_error", 429, 3040, "rate_limit_error"},
    {Kind::not_implemented, 501, "not_implemented_error", 501, 6003, "invalid_request_error"},
    {Kind::wrong_version, 505, "http_version_error", 505, 6003, "invalid_request_error"},
    {Kind::internal, 500, "internal_server_error", 529, 5012, "server_error"},
    {Kind::unavailable, 503, "service_unavailable_error", 503, 3040, "server_error"},
    {Kind::deadline, 504, "deadline_exceeded_error", 504, 3007, "timeout_error"},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i].kind != static_cast<Kind>(i)) return false;
  }
  return true;
}
static_assert(is_in_order());

const KindRow& row_of(Kind kind) { return kKinds[static_cast<std::size_t>(kind)]; }

// "questions.a.criteria"; the first step only says where the rest leads through.
std::string dotted(const std::vector<Step>& path) {
  std::string text;
  for (std::size_t i = 1; i < path.size(); ++i) {
    if (!text.empty()) text += '.';
    if (const auto* name = std::get_if<std::string>(&path[i])) {
      text += *name;
    } else {
      text += std::to_string(std::get<std::int64_t>(path[i]));
    }
  }
  return text;
}

Json list_of(const std::vector<Step>& path) {
  Json::Array list;
  for (const Step& step : path) {
    std::visit([&](const auto& value) { list.emplace_back(value); }, step);
  }
  return list;
}

Json detail_of(const Failure& failure) {
  if (failure.kind != Kind::invalid) {
    return Json::Object{{"error_type", std::string(row_of(failure.kind).error_type)}, {"message", failure.message}};
  }
  Json::Array details;
  for (const Violation& violation : failure.violations) {
    details.emplace_back(
        Json::Object{{"loc", list_of(violation.path)}, {"msg", violation.message}, {"type", violation.type}});
  }
  return details;
}

// 5006 is the hosted service's code for a body without questions or with a type that it does not know.
std::pair<int, int> workers_status_and_code(const Failure& failure) {
  const bool is_schema = std::any_of(failure.violations.begin(), failure.violations.end(), [](const Violation& v) {
    return v.type == "missing_questions" || v.type == "unknown_type";
  });
  if (is_schema) return {400, 5006};
  const KindRow& row = row_of(failure.kind);
  return {row.workers_status, row.workers_code};
}

Json openai_body(const Failure& failure) {
  Json param;
  if (!failure.violations.empty()) param = dotted(failure.violations.front().path);
  return Json::Object{{"error", Json::Object{{"message", failure.message},
                                             {"type", std::string(row_of(failure.kind).openai_type)},
                                             {"param", std::move(param)},
                                             {"code", std::string(row_of(failure.kind).error_type)}}}};
}

// What the record's parser says of media: "images[1]: MESSAGE", "videos MESSAGE", "too many images: MESSAGE". Anything
// else is about the body as a whole.
Violation violation_in(std::string_view text) {
  constexpr std::string_view kTooMany = "too many ";
  Violation violation{.path = {"body"}, .message = std::string(text), .type = "value_error"};
  const std::string_view named = text.substr(0, kTooMany.size()) == kTooMany ? text.substr(kTooMany.size()) : text;
  for (const std::string_view name : {"images", "videos", "audio", "media_kwargs", "videos_kwargs"}) {
    if (named.substr(0, name.size()) != name) continue;
    violation.path.emplace_back(std::string(name));
    const std::string_view rest = named.substr(name.size());
    const std::size_t close = rest.substr(0, 1) == "[" ? rest.find(']') : std::string_view::npos;
    if (close == std::string_view::npos) break;
    const auto index = whole_number(rest.substr(1, close - 1), 0, std::numeric_limits<std::int32_t>::max());
    if (!index) break;
    violation.path.emplace_back(*index);
    const std::string_view message = rest.substr(close + 1);
    if (message.substr(0, 2) == ": ") violation.message = std::string(message.substr(2));
    break;
  }
  return violation;
}

}  // namespace

int status_of(Kind kind) { return row_of(kind).status; }

Failure invalid(std::vector<Violation> violations) {
  CHECK(!violations.empty());
  std::string message;
  for (const Violation& violation : violations) {
    if (!message.empty()) message += "; ";
    const std::string path = dotted(violation.path);
    message += path.empty() ? violation.message : fmt::format("{}: {}", path, violation.message);
  }
  return {.kind = Kind::invalid, .message = std::move(message), .violations = std::move(violations)};
}

Failure failure_of(const Error& error) {
  switch (error.code) {
    case Errc::bad_request:
    case Errc::unsupported:
      if (error.message.rfind("json: ", 0) == 0) return {.kind = Kind::malformed, .message = error.message};
      return invalid({violation_in(error.message)});
    case Errc::too_large: {
      // Pictures that are too many or too large are a fault of their member's; the rest has too many tokens or bytes.
      Violation violation = violation_in(error.message);
      if (violation.path.size() == 1) return {.kind = Kind::too_large, .message = error.message};
      violation.type = "too_large";
      return invalid({std::move(violation)});
    }
    case Errc::busy:
      return {.kind = Kind::queue_full, .message = error.message};
    case Errc::device_lost:  // another process, or this one started again, can answer
    case Errc::unavailable:
      return {.kind = Kind::unavailable, .message = error.message};
    case Errc::timeout:
      return {.kind = Kind::deadline, .message = error.message};
    case Errc::bad_model:
    case Errc::io:
    case Errc::out_of_memory:
    case Errc::device:
    case Errc::non_finite:
    case Errc::internal:
      break;
  }
  return {.kind = Kind::internal, .message = error.message};
}

Json error_body(const Failure& failure, Wire wire) {
  switch (wire) {
    case Wire::systemone:
      break;
    case Wire::workers: {
      const Json::Integer code{std::to_string(workers_status_and_code(failure).second)};
      return Json::Object{{"result", nullptr},
                          {"success", false},
                          {"errors", Json::Array{Json::Object{{"code", code}, {"message", failure.message}}}},
                          {"messages", Json::Array{}}};
    }
    case Wire::openai:
      return openai_body(failure);
  }
  // `message` is ours: without it one of the two clients prints `detail` as raw JSON.
  return Json::Object{{"detail", detail_of(failure)}, {"message", failure.message}};
}

Response error_response(const Failure& failure, Wire wire) {
  Response response;
  response.status = wire == Wire::workers ? workers_status_and_code(failure).first : status_of(failure.kind);
  response.body = to_compact_json(error_body(failure, wire));
  if (failure.kind == Kind::unauthorized) response.fields.emplace_back("WWW-Authenticate", "Bearer");
  if (failure.kind == Kind::wrong_encoding) response.fields.emplace_back("Accept-Encoding", "gzip, identity");
  if (failure.retry_after && wire != Wire::workers) {
    // Whole seconds for those who read only the standard field, rounded up: it must not send anyone back too early.
    response.fields.emplace_back("retry-after-ms", std::to_string(failure.retry_after->count()));
    response.fields.emplace_back("Retry-After", std::to_string((failure.retry_after->count() + 999) / 1000));
  }
  return response;
}

}  // namespace clef::server
