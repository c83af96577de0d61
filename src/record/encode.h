// From a request to what the network reads: token ids, and the spans that the head pools.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "record/request.h"
#include "text/tokenizer.h"

namespace clef {

struct Span {
  std::int64_t first = 0;  // token of the final sequence
  std::int64_t count = 0;
  std::int64_t end() const { return first + count; }
  bool operator==(const Span&) const = default;
};

struct EncodedQuestion {
  std::string id;
  QuestionType type = QuestionType::noul;
  Span span;                        // the instruction
  std::vector<Span> option_spans;   // option bodies, in prompt order
  std::vector<std::string> option_ids;
};

struct EncodedRecord {
  std::vector<std::int32_t> input_ids;
  std::vector<EncodedQuestion> questions;
  std::int64_t media_offset = 0;    // tokens before media: length of the fixed prefix
  std::int64_t schema_first = 0;    // tokens before the schema
  std::int64_t truncated_state_tokens = 0;
  std::int64_t num_options() const;
};

struct EncodeOptions {
  std::int64_t max_length = 16384;  // tokens of the whole record
  bool strict = false;    // request text never becomes a control token
  bool truncate = false;  // cut an over-long state at its end, as the reference does; otherwise refuse it
};

// Errc::bad_request, or too_large when schema or state do not fit; messages as in docs/usage.md.
Result<EncodedRecord> encode(const Request& request, const Tokenizer& tokenizer, const EncodeOptions& options);

}  // namespace clef
