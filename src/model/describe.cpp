#include "model/describe.h"

#include "text/utf8.h"

namespace clef {

namespace {

Json ids_of(std::span<const std::int32_t> ids) {
  Json::Array out;
  for (const std::int32_t id : ids) out.emplace_back(static_cast<std::int64_t>(id));
  return Json(std::move(out));
}

Json span_of(const Span& span) { return Json(Json::Array{Json(span.first), Json(span.end())}); }

Result<EncodedRecord> encode_text(std::string_view line, const Tokenizer& tokenizer, const EncodeOptions& options) {
  Json body = TRY(parse_json(line));
  const Request request = TRY(parse_request(std::move(body)));
  return encode(request, tokenizer, options);
}

}  // namespace

Json describe(const EncodedRecord& record) {
  Json::Array questions;
  for (const EncodedQuestion& question : record.questions) {
    Json::Array spans, ids;
    for (const Span& span : question.option_spans) spans.push_back(span_of(span));
    for (const std::string& id : question.option_ids) ids.emplace_back(id);
    questions.emplace_back(Json::Object{{"id", Json(question.id)},
                                        {"type", Json(static_cast<std::int64_t>(question.type))},
                                        {"span", span_of(question.span)},
                                        {"option_spans", Json(std::move(spans))},
                                        {"option_ids", Json(std::move(ids))}});
  }
  return Json(Json::Object{{"input_ids", ids_of(record.input_ids)},
                           {"questions", Json(std::move(questions))},
                           {"media_offset", Json(record.media_offset)},
                           {"truncated_state_tokens", Json(record.truncated_state_tokens)}});
}

Json encode_line(std::string_view line, const Tokenizer& tokenizer, const EncodeOptions& options) {
  const auto record = encode_text(line, tokenizer, options);
  return record ? describe(*record) : Json(Json::Object{{"error", Json(record.error().message)}});
}

Json tokenize_text(std::string_view text, const Tokenizer& tokenizer, bool strict, bool pieces) {
  if (!pieces) return ids_of(tokenizer.encode(text, {.match_added_tokens = !strict}));
  Json::Array words;
  for (std::string& word : tokenizer.split(text)) words.emplace_back(std::move(word));
  return Json(std::move(words));
}

Status require_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence_length(text, at);
    if (length == 0) return Error{Errc::bad_request, fmt::format("byte {} is no UTF-8", at)};
    at += length;
  }
  return {};
}

}  // namespace clef
