// From a request to what the network reads: token ids, and the spans that the head pools.
#pragma once

#include <array>
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

enum class MediaKind : std::uint8_t { image = 1, video = 2 };  // values are the reference's mm_token_type_ids

// One image or one video as the vision tower reads it, and where its tokens lie.
struct EncodedMedia {
  MediaKind kind = MediaKind::image;
  std::int64_t grid_t = 1, grid_h = 0, grid_w = 0;  // in patches; h and w are even, t is 1 for an image
  std::vector<Span> token_spans;                    // of its pads: one for an image, one for each of t for a video
  // [grid_t * grid_h * grid_w, 1536]: rows in blocks of 2 x 2 patches, each row channel, frame, y, x. Level k stands for
  // the reference's pixel value (k - 127.5) / 127.5.
  std::vector<std::uint8_t> patches;
};

struct EncodedRecord {
  std::vector<std::int32_t> input_ids;
  std::vector<EncodedQuestion> questions;
  std::vector<EncodedMedia> media;  // all images, then all videos
  // Three-axis rotary positions (temporal, height, width) by token; empty without media: 0, 1, 2 ... on all axes.
  std::vector<std::array<std::int32_t, 3>> positions;
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
