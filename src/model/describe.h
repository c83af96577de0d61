// What tokenizer and encoder make of a text, as JSON: the members and their order are those of the reference's own
// dump.
#pragma once

#include <string_view>

#include "base/result.h"
#include "record/encode.h"
#include "text/json.h"
#include "text/tokenizer.h"

namespace clef {

// {"input_ids", "questions": [{"id", "type", "span", "option_spans", "option_ids"}], "media_offset",
// "truncated_state_tokens"}; a span is [first, end).
Json describe(const EncodedRecord& record);

// One line of requests to one line of output: describe() of the record, or {"error": message}.
Json encode_line(std::string_view line, const Tokenizer& tokenizer, const EncodeOptions& options);

// The ids of `text` as a list, or with `pieces` the words that the split pattern makes of it.
Json tokenize_text(std::string_view text, const Tokenizer& tokenizer, bool strict, bool pieces);

// Errc::bad_request with the place of the first byte that is no UTF-8.
Status require_utf8(std::string_view text);

}  // namespace clef
