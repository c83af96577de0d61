#include "model/vision_input.h"

#include "model/json_fields.h"

namespace clef {

Result<VisionInput> vision_input(const VisionConfig& config) {
  VisionInput input{.image_token_id = config.image_token_id,
                    .video_token_id = config.video_token_id,
                    .vision_start_token_id = config.vision_start_token_id,
                    .vision_end_token_id = config.vision_end_token_id,
                    .image_bounds = {.min_pixels = config.image_min_pixels, .max_pixels = config.image_max_pixels}};
  if (config.video_processor.empty()) return input;
  constexpr std::int64_t kMostPixels = std::int64_t{1} << 40;
  const Json document = TRY(parse_json_file("video processor", config.video_processor));
  const JsonFields fields = TRY(JsonFields::of("video processor", document));
  input.video_fps = TRY(fields.number_or("fps", input.video_fps));
  input.video_min_frames = TRY(fields.integer_or("min_frames", 1, kMaxSampledFrames, input.video_min_frames));
  input.video_max_frames =
      TRY(fields.integer_or("max_frames", input.video_min_frames, kMaxSampledFrames, input.video_max_frames));
  if (fields.has("size")) {
    const JsonFields size = TRY(fields.object("size"));
    input.video_bounds.min_pixels = TRY(size.integer("shortest_edge", 1, kMostPixels));
    input.video_bounds.max_pixels = TRY(size.integer("longest_edge", input.video_bounds.min_pixels, kMostPixels));
  }
  return input;
}

}  // namespace clef
