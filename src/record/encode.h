// From a request to what the network reads: token ids, and the spans that the head pools.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "media/resize.h"
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
  Span span;                       // the instruction
  std::vector<Span> option_spans;  // option bodies, in prompt order
  std::vector<std::string> option_ids;
};

enum class MediaKind : std::uint8_t { image = 1, video = 2 };  // values are the reference's mm_token_type_ids

// One image or one video as the vision tower reads it, and where its tokens lie.
struct EncodedMedia {
  MediaKind kind = MediaKind::image;
  std::int64_t grid_t = 1, grid_h = 0, grid_w = 0;  // in patches; h and w are even, t is 1 for an image
  std::vector<Span> token_spans;                    // of its pads: one for an image, one for each of t for a video
  // [grid_t * grid_h * grid_w, 1536]: rows in blocks of 2 x 2 patches, each row channel, frame, y, x. Level k stands
  // for the reference's pixel value (k - 127.5) / 127.5.
  std::vector<std::uint8_t> patches;
};

struct EncodedRecord {
  std::vector<std::int32_t> input_ids;
  std::vector<EncodedQuestion> questions;
  std::vector<EncodedMedia> media;  // all images, then all videos
  // Three-axis rotary positions (temporal, height, width) by token; empty without media: 0, 1, 2 ... on all axes.
  std::vector<std::array<std::int32_t, 3>> positions;
  std::int64_t media_offset = 0;  // tokens before media: length of the fixed prefix
  std::int64_t schema_first = 0;  // tokens before the schema
  std::int64_t truncated_state_tokens = 0;
  std::int64_t num_options() const;
};

// What the encoder needs to know of a model with a vision tower.
struct VisionInput {
  std::int32_t image_token_id = 0, video_token_id = 0, vision_start_token_id = 0, vision_end_token_id = 0;
  PixelBounds image_bounds = {};                                            // of each image
  PixelBounds video_bounds{.min_pixels = 4096, .max_pixels = 25165824};     // of all sampled frames of a video together
  double video_fps = 2;                                                     // frames a second to sample, but
  std::int64_t video_min_frames = 4, video_max_frames = kMaxSampledFrames;  // no fewer and no more of them
};

// Bounds on media; 0: none but those of the decoders and of max_length. All are checked before pixels are decoded.
struct MediaLimits {
  std::int64_t max_images = 0, max_image_tokens = 0;
  std::int64_t max_image_pixels = 0;  // of the file, before resizing; of a video's frames too
  std::int64_t max_videos = 0, max_video_frames = 0, max_video_tokens = 0;

  // For requests of strangers: an image of 1,024 tokens takes 6 MB of patches from a kilobyte of request.
  static constexpr MediaLimits server() {
    return {.max_images = 4,
            .max_image_tokens = 1024,
            .max_image_pixels = 16777216,
            .max_videos = 1,
            .max_video_frames = 32,
            .max_video_tokens = 1024};
  }
};

struct EncodeOptions {
  std::int64_t max_length = 16384;  // tokens of the whole record
  bool strict = false;              // request text never becomes a control token
  bool truncate = false;            // cut an over-long state at its end, as the reference does; otherwise refuse it
  std::optional<VisionInput> vision = {};  // none: requests with media are refused
  MediaLimits media_limits = {};
};

// Errc::bad_request, too_large when schema, state or media do not fit, or unsupported; messages as in docs/usage.md
// and docs/media.md. Limits come before work: pictures are decoded once everything is known to fit.
Result<EncodedRecord> encode(const Request& request, const Tokenizer& tokenizer, const EncodeOptions& options);

}  // namespace clef
