// The pictures and clips of a request, checked for form but not yet decoded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "media/image.h"
#include "media/resize.h"
#include "text/json.h"

namespace clef {

// A picture file in base64, as a data URL, an object or a bare string gave it.
struct ImageSource {
  std::string text;
  std::size_t base64_at = 0;            // where in `text` the base64 begins
  std::optional<ImageFormat> declared;  // what the request says it is
  std::string_view declared_by;         // "content_type" or "data URL media type"

  std::string_view base64() const { return std::string_view(text).substr(base64_at); }
};

// A clip as its frames. `frame_indices` holds a place in the source for each frame; empty unless they were sampled
// before.
struct VideoSource {
  std::vector<ImageSource> frames;
  double fps = 0;  // of the source
  std::vector<std::int64_t> frame_indices;
};

// `media_kwargs`: what the caller wants done otherwise than the model's processor does it.
struct MediaOptions {
  std::optional<PixelBounds> image_bounds, video_bounds;
  std::optional<double> video_fps;               // frames a second to sample
  std::optional<std::int64_t> video_num_frames;  // or how many in all
  bool do_sample_frames = true;                  // false: take all
};

struct RequestMedia {
  std::vector<ImageSource> images;
  std::vector<VideoSource> videos;
  MediaOptions options;
  bool empty() const { return images.empty() && videos.empty(); }
};

inline constexpr std::int64_t kMaxClipFrames = 18000;   // of a source; and
inline constexpr double kMaxClipSeconds = 600;          // its length
inline constexpr std::int64_t kMaxSampledFrames = 768;  // the reference's processor takes no more

// Takes `images`, `videos` and `media_kwargs` out of a request's body. What is false to Python stands for none.
Result<RequestMedia> take_media(Json& body);

// `media_kwargs` alone; `videos_kwargs` in it is looked at only when there are videos.
Result<MediaOptions> parse_media_options(const Json& media_kwargs, bool has_videos);

}  // namespace clef
