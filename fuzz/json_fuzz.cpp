// Any bytes through the JSON reader, both writers, and, as a request, on to an answer.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "record/decision.h"
#include "record/request.h"
#include "record/respond.h"
#include "text/json.h"
#include "text/utf8.h"

namespace clef {
namespace {

void check_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence_length(text, at);
    CHECK(length != 0, "byte {} of {} begins no character", at, text.size());
    at += length;
  }
}

// What is written reads back to a value that is written the same. (Values are compared as text: NaN equals nothing.)
void check_round_trip(const Json& value) {
  const std::string text = to_compact_json(value);
  check_utf8(text);
  const auto again = parse_json(text);
  CHECK(again.has_value(), "{}", again.error().message);
  CHECK(to_compact_json(*again) == text);

  std::string sorted;
  append_sorted_json(sorted, value);
  const auto from_sorted = parse_json(sorted);
  CHECK(from_sorted.has_value(), "{}", from_sorted.error().message);
  CHECK(to_compact_json(*from_sorted) == sorted);
  CHECK(render(*again) == render(value));
  CHECK(value.if_string() != nullptr || render(value) == sorted);
}

void check_request(Json body) {
  const auto request = parse_request(std::move(body));
  if (!request) {
    check_utf8(request.error().message);
    return;
  }
  CHECK(!request->questions.empty());
  EncodedRecord record;
  Decisions decisions;
  for (const Question& question : request->questions) {
    CHECK(!question.instructions.empty() && !question.options.empty());
    CHECK(question.caller_order.size() == question.options.size());
    record.questions.push_back(
        {.id = question.id, .type = question.type, .span = {}, .option_spans = {}, .option_ids = {}});
    decisions.logits.emplace_back();
    for (const Option& option : question.options) {
      record.questions.back().option_ids.push_back(option.id);
      decisions.logits.back().push_back(static_cast<float>(option.id.size() % 7) - 3.0F);
    }
    decisions.probabilities.push_back(softmax(decisions.logits.back()));
  }
  check_round_trip(respond(*request, record, decisions));
  check_round_trip(logits_by_option(record, decisions));
}

}  // namespace
}  // namespace clef

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto value = clef::parse_json({reinterpret_cast<const char*>(data), size});
  if (!value) {
    CHECK(value.error().message.starts_with("json: "));
    return 0;
  }
  clef::check_round_trip(*value);
  clef::check_request(std::move(value).value());
  return 0;
}
