// Requests through the encoder with a tokenizer of single bytes, in all four ways of strict and truncate.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "byte_tokenizer.h"
#include "record/encode.h"
#include "record/prompt.h"
#include "record/request.h"
#include "text/json.h"
#include "text/tokenizer.h"

namespace clef {
namespace {

constexpr std::int64_t kMaxLength = 1200;

std::size_t num_controls(const std::vector<std::int32_t>& ids) {
  std::size_t count = 0;
  for (const std::int32_t id : ids) count += id >= kFirstControl ? 1 : 0;
  return count;
}

void check_spans(const EncodedRecord& record) {
  std::int64_t end = record.schema_first;  // of what came before
  const auto follows = [&](Span span) {
    CHECK(span.first > end && span.count > 0, "[{}, {}) after {}", span.first, span.end(), end);
    end = span.end();
  };
  for (const EncodedQuestion& question : record.questions) {
    follows(question.span);
    CHECK(question.option_spans.size() == question.option_ids.size() && !question.option_ids.empty());
    for (const Span span : question.option_spans) follows(span);
  }
  CHECK(end < static_cast<std::int64_t>(record.input_ids.size()));
}

void check_encoding(const Request& request, bool strict, bool truncate) {
  static const Tokenizer tokenizer = byte_tokenizer({"<|im_start|>", "<|im_end|>", "<think>", "</think>"});
  const auto record = encode(request, tokenizer, {.max_length = kMaxLength, .strict = strict, .truncate = truncate});
  if (!record) {
    if (!request.media.empty()) return;  // media_fuzz has those
    CHECK(record.error().code == Errc::too_large);
    CHECK(!truncate || record.error().message.starts_with("schema requires "), "{}", record.error().message);
    return;
  }
  CHECK(record->input_ids.size() <= kMaxLength);
  CHECK(record->questions.size() == request.questions.size());
  CHECK(truncate || record->truncated_state_tokens == 0);
  CHECK(record->media_offset <= record->schema_first);
  check_spans(*record);
  if (strict) {
    static const std::size_t of_template =
        num_controls(tokenizer.encode(prompt::kPrefix)) + num_controls(tokenizer.encode(prompt::kSuffix));
    CHECK(num_controls(record->input_ids) == of_template);
  }
}

}  // namespace
}  // namespace clef

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto body = clef::parse_json({reinterpret_cast<const char*>(data), size});
  if (!body) return 0;
  const auto request = clef::parse_request(std::move(body).value());
  if (!request) return 0;
  for (const bool strict : {false, true}) {
    for (const bool truncate : {false, true}) clef::check_encoding(*request, strict, truncate);
  }
  return 0;
}
