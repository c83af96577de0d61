// From a request's pictures and clips to their tokens, and to the patches that the vision tower reads.
//
// In two steps: plan_media() looks at headers alone and decides whether all fits; load_media() decodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "media/resize.h"
#include "record/encode.h"
#include "text/tokenizer.h"

namespace clef {

// Whether the model takes media at all, and so many.
Status check_media_counts(const RequestMedia& media, const EncodeOptions& options);

// One image or video that fits, not yet decoded.
struct PlannedMedia {
  EncodedMedia encoded;  // without patches; token_spans count from the first token of the media
  std::string path;      // "images[0]": for messages
  TargetSize size;
  std::vector<std::vector<std::uint8_t>> files;  // the image, or the sampled frames
  std::vector<std::string> file_paths;           // "images[0]" or "videos[0].frames[3]"
};

struct MediaPlan {
  std::vector<PlannedMedia> items;
  std::vector<std::int32_t> ids;  // what stands between the fixed prefix and the state; empty without media
};

// `other_tokens`: what the record holds beside media.
Result<MediaPlan> plan_media(const RequestMedia& media, const Tokenizer& tokenizer, const EncodeOptions& options,
                             std::int64_t other_tokens);

// Decodes, resizes and cuts. `first_token`: where the plan's ids begin in the record.
Result<std::vector<EncodedMedia>> load_media(MediaPlan plan, const MediaLimits& limits, std::int64_t first_token);

}  // namespace clef
