// Requests with pictures and clips through the encoder, with a tokenizer of single bytes.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "byte_tokenizer.h"
#include "record/encode.h"
#include "record/request.h"
#include "text/json.h"

namespace clef {
namespace {

constexpr VisionInput kVision = {.image_token_id = kFirstControl,
                                 .video_token_id = kFirstControl + 1,
                                 .vision_start_token_id = kFirstControl + 2,
                                 .vision_end_token_id = kFirstControl + 3,
                                 .image_bounds = {.min_pixels = 1024, .max_pixels = 16384}};
constexpr MediaLimits kLimits = {.max_image_pixels = 1 << 16, .max_video_tokens = 256};  // keep a run short

void check_media(const EncodedRecord& record, bool strict) {
  std::int64_t pads = 0, end = record.media_offset;
  for (const EncodedMedia& media : record.media) {
    CHECK(static_cast<std::int64_t>(media.patches.size()) == media.grid_t * media.grid_h * media.grid_w * 1536);
    CHECK(static_cast<std::int64_t>(media.token_spans.size()) == media.grid_t);
    for (const Span span : media.token_spans) {
      CHECK(span.first > end && span.count == media.grid_h * media.grid_w / 4);
      end = span.end();
      pads += span.count;
      const std::int32_t id = media.kind == MediaKind::image ? kVision.image_token_id : kVision.video_token_id;
      for (std::int64_t i = span.first; i < span.end(); ++i) CHECK(record.input_ids[static_cast<std::size_t>(i)] == id);
    }
  }
  // Media end in a line feed; without them an empty state leaves nothing between prefix and schema.
  CHECK(end + (record.media.empty() ? 0 : 1) <= record.schema_first);
  CHECK(record.positions.size() == (record.media.empty() ? 0 : record.input_ids.size()));
  if (record.media.empty() && !strict) return;  // text may spell pads then
  std::int64_t found = 0;
  for (const std::int32_t id : record.input_ids) {
    found += id == kVision.image_token_id || id == kVision.video_token_id ? 1 : 0;
  }
  CHECK(found == pads);
}

}  // namespace
}  // namespace clef

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const clef::Tokenizer tokenizer = clef::byte_tokenizer(
      {"<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>", "<|im_start|>", "<|im_end|>"});
  auto body = clef::parse_json({reinterpret_cast<const char*>(data), size});
  if (!body) return 0;
  const auto request = clef::parse_request(std::move(body).value());
  if (!request) return 0;
  for (const bool strict : {false, true}) {
    const auto record = clef::encode(*request, tokenizer,
                                     {.max_length = 3000,
                                      .strict = strict,
                                      .truncate = !strict,
                                      .vision = clef::kVision,
                                      .media_limits = clef::kLimits});
    if (record) clef::check_media(*record, strict);
  }
  return 0;
}
