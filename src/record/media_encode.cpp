#include "record/media_encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "media/base64.h"
#include "media/image.h"
#include "media/patchify.h"
#include "media/video.h"

namespace clef {
namespace {

constexpr std::int64_t kPixelsPerToken = kSideFactor * kSideFactor;
// Of one image or video, whatever a request asks for: as many pixels after resizing as a file may have before.
constexpr std::int64_t kMaxTokens = kMaxImagePixels / kPixelsPerToken;

Error at(std::string_view path, Error error) { return {error.code, fmt::format("{}: {}", path, error.message)}; }
Error too_large(std::string_view path, std::string_view message) {
  return at(path, {Errc::too_large, std::string(message)});
}

std::int64_t limit_or(std::int64_t limit, std::int64_t cap) { return limit > 0 ? std::min(limit, cap) : cap; }

// A picture's file, whose header has been read and found within the limits.
struct CheckedFile {
  std::vector<std::uint8_t> bytes;
  ImageHeader header;
};

Status check_declared(const ImageSource& source, std::span<const std::uint8_t> bytes) {
  if (!source.declared) return {};
  const auto found = sniff_image(bytes);
  if (found == source.declared) return {};
  const std::string_view what = found ? name_of(*found) : "none of PNG, JPEG, WebP, GIF and BMP";
  return Error{Errc::bad_request,
               fmt::format("{} says {} but the data is {}", source.declared_by, name_of(*source.declared), what)};
}

Result<CheckedFile> check_file(const ImageSource& source, const MediaLimits& limits) {
  CheckedFile file;
  if (max_decoded_base64(source.base64().size()) > kMaxImageBytes + 2) {  // two characters may be padding
    return Error{Errc::too_large, fmt::format("encoded image exceeds {} MiB", kMaxImageBytes >> 20)};
  }
  file.bytes = TRY(decode_base64(source.base64(), kMaxImageBytes));
  if (!file.bytes.empty()) TRY(check_declared(source, file.bytes));
  file.header = TRY(probe_image(file.bytes));
  const std::int64_t limit = limit_or(limits.max_image_pixels, kMaxImagePixels);
  if (file.header.pixels() > limit) {
    return Error{Errc::too_large, fmt::format("{}x{} is {} pixels, above the limit of {} per image", file.header.width,
                                              file.header.height, file.header.pixels(), limit)};
  }
  return file;
}

class Planner {
 public:
  Planner(const Tokenizer& tokenizer, const EncodeOptions& options, std::int64_t other_tokens)
      : tokenizer_(tokenizer), options_(options), vision_(*options.vision), newline_(tokenizer.encode("\n")) {
    // The line feed that ends the media is there in any case.
    other_tokens_ = other_tokens + static_cast<std::int64_t>(newline_.size());
  }

  Status add_image(const ImageSource& source, const MediaOptions& wanted, std::string path) {
    auto file = check_file(source, options_.media_limits);
    if (!file) return at(path, std::move(file).error());
    const ImageHeader& header = file->header;
    const auto size = smart_resize(header.height, header.width, wanted.image_bounds.value_or(vision_.image_bounds));
    if (!size) return at(path, size.error());

    const std::int64_t tokens = size->tokens(), limit = limit_or(options_.media_limits.max_image_tokens, kMaxTokens);
    if (tokens > limit) {
      return too_large(path, fmt::format("{}x{} resizes to {} tokens, above the limit of {} per image; downscale it or "
                                         "pass media_kwargs.max_pixels <= {}",
                                         header.width, header.height, tokens, limit, limit * kPixelsPerToken));
    }
    constexpr std::int64_t kMarkers = 2;  // vision_start, vision_end
    if (!fits(kMarkers + tokens)) {
      return too_large(
          path,
          fmt::format("{}x{} resizes to {} tokens; with {} image tokens before it and {} tokens of prompt, schema "
                      "and untruncated state the request cannot fit {} tokens",
                      header.width, header.height, tokens, num_ids(), other_tokens_, options_.max_length));
    }
    PlannedMedia item = planned(MediaKind::image, path, *size, 1);
    plan_.ids.push_back(vision_.vision_start_token_id);
    add_pads(item, vision_.image_token_id);
    plan_.ids.push_back(vision_.vision_end_token_id);
    item.files.push_back(std::move(file->bytes));
    item.file_paths.push_back(std::move(path));
    plan_.items.push_back(std::move(item));
    return {};
  }

  Status add_video(const VideoSource& source, const MediaOptions& wanted, std::string path) {
    const std::vector<std::int64_t> frames = TRY(sample(source, wanted, path));
    std::vector<std::vector<std::uint8_t>> files;
    std::vector<std::string> file_paths;
    ImageHeader first;
    for (const std::int64_t frame : frames) {
      std::string frame_path = fmt::format("{}.frames[{}]", path, frame);
      auto file = check_file(source.frames[static_cast<std::size_t>(frame)], options_.media_limits);
      if (!file) return at(frame_path, std::move(file).error());
      if (files.empty()) first = file->header;
      if (file->header.width != first.width || file->header.height != first.height) {
        return at(path, {Errc::bad_request, "video frame dimensions differ"});
      }
      files.push_back(std::move(file->bytes));
      file_paths.push_back(std::move(frame_path));
    }
    const auto num_frames = static_cast<std::int64_t>(frames.size());
    const auto size =
        smart_resize_video(num_frames, first.height, first.width, wanted.video_bounds.value_or(vision_.video_bounds));
    if (!size) return at(path, size.error());

    PlannedMedia item = planned(MediaKind::video, path, *size, num_slices(num_frames));
    item.files = std::move(files);
    item.file_paths = std::move(file_paths);
    TRY(add_slices(item, source, frames));
    plan_.items.push_back(std::move(item));
    return {};
  }

  MediaPlan finish() && {
    plan_.ids.insert(plan_.ids.end(), newline_.begin(), newline_.end());
    return std::move(plan_);
  }

 private:
  std::int64_t num_ids() const { return static_cast<std::int64_t>(plan_.ids.size()); }
  bool fits(std::int64_t more) const { return other_tokens_ + num_ids() + more <= options_.max_length; }

  static PlannedMedia planned(MediaKind kind, std::string_view path, const TargetSize& size, std::int64_t grid_t) {
    PlannedMedia item;
    item.encoded.kind = kind;
    item.encoded.grid_t = grid_t;
    item.encoded.grid_h = size.grid_h();
    item.encoded.grid_w = size.grid_w();
    item.path = path;
    item.size = size;
    return item;
  }

  void add_pads(PlannedMedia& item, std::int32_t id) {
    item.encoded.token_spans.push_back({.first = num_ids(), .count = item.size.tokens()});
    plan_.ids.insert(plan_.ids.end(), static_cast<std::size_t>(item.size.tokens()), id);
  }

  // Which of a video's frames to take.
  Result<std::vector<std::int64_t>> sample(const VideoSource& source, const MediaOptions& wanted,
                                           std::string_view path) const {
    const auto total = static_cast<std::int64_t>(source.frames.size());
    std::int64_t count = total;
    if (wanted.video_num_frames) {
      count = *wanted.video_num_frames;
    } else if (wanted.do_sample_frames) {
      count = sampled_frame_count(total, {.source_fps = source.fps,
                                          .target_fps = wanted.video_fps.value_or(vision_.video_fps),
                                          .min_frames = vision_.video_min_frames,
                                          .max_frames = vision_.video_max_frames});
    }
    const std::int64_t limit = limit_or(options_.media_limits.max_video_frames, vision_.video_max_frames);
    if (count > limit || count > total) {
      return too_large(path,
                       fmt::format("video has {} sampled frames, above the limit of {} or its source count; lower "
                                   "videos_kwargs.fps/num_frames",
                                   count, limit));
    }
    return evenly_spaced(total, count);
  }

  // The ids of a video: the outer pair of markers stays around all of it, each slice has a time and a pair of its own.
  // Source: Qwen3VLProcessor, transformers 5.12 and later; only the pad token is replaced.
  Status add_slices(PlannedMedia& item, const VideoSource& source, const std::vector<std::int64_t>& frames) {
    const std::int64_t slices = item.encoded.grid_t, tokens = item.size.tokens();
    const std::int64_t limit = limit_or(options_.media_limits.max_video_tokens, kMaxTokens);
    if (tokens > limit || slices * tokens > limit) {
      return too_large(item.path, fmt::format("video resizes to {} tokens, above the limit of {} per video; lower "
                                              "videos_kwargs.size.longest_edge",
                                              slices * tokens, limit));
    }
    std::vector<std::int64_t> indices;  // in the source
    indices.reserve(frames.size());
    for (const std::int64_t frame : frames) {
      indices.push_back(source.frame_indices.empty() ? frame : source.frame_indices[static_cast<std::size_t>(frame)]);
    }
    std::vector<std::vector<std::int32_t>> times;
    times.reserve(static_cast<std::size_t>(slices));
    std::int64_t total = 2 + slices * (2 + tokens);
    for (std::int64_t slice = 0; slice < slices; ++slice) {
      times.push_back(tokenizer_.encode(slice_timestamp(indices, slice, source.fps)));
      total += static_cast<std::int64_t>(times.back().size());
    }
    if (!fits(total)) {
      return too_large(
          item.path,
          fmt::format("video tokens and prompt cannot fit the context: {} tokens with {} image and video tokens before "
                      "them and {} of prompt, schema and untruncated state; maximum is {}",
                      total, num_ids(), other_tokens_, options_.max_length));
    }
    plan_.ids.push_back(vision_.vision_start_token_id);
    for (const auto& time : times) {
      plan_.ids.insert(plan_.ids.end(), time.begin(), time.end());
      plan_.ids.push_back(vision_.vision_start_token_id);
      add_pads(item, vision_.video_token_id);
      plan_.ids.push_back(vision_.vision_end_token_id);
    }
    plan_.ids.push_back(vision_.vision_end_token_id);
    return {};
  }

  const Tokenizer& tokenizer_;
  const EncodeOptions& options_;
  const VisionInput& vision_;
  const std::vector<std::int32_t> newline_;
  std::int64_t other_tokens_ = 0;
  MediaPlan plan_;
};

Result<Image> load_image(const PlannedMedia& item, std::size_t file, std::int64_t max_pixels) {
  auto image = decode_image(item.files[file], max_pixels);
  if (!image) return at(item.file_paths[file], std::move(image).error());
  return resize(std::move(image).value(), item.size.height, item.size.width);
}

}  // namespace

Status check_media_counts(const RequestMedia& media, const EncodeOptions& options) {
  const MediaLimits& limits = options.media_limits;
  for (const auto& [name, count] : {std::pair("images", media.images.size()), {"videos", media.videos.size()}}) {
    if (count > 0 && !options.vision) {
      return Error{Errc::unsupported, fmt::format("{} are not supported by this model file (no vision tower)", name)};
    }
  }
  if (limits.max_images > 0 && media.images.size() > static_cast<std::size_t>(limits.max_images)) {
    return Error{Errc::too_large,
                 fmt::format("too many images: {}, at most {} per request", media.images.size(), limits.max_images)};
  }
  if (limits.max_videos > 0 && media.videos.size() > static_cast<std::size_t>(limits.max_videos)) {
    return Error{Errc::too_large,
                 fmt::format("too many videos: {}, at most {} per request", media.videos.size(), limits.max_videos)};
  }
  return {};
}

Result<MediaPlan> plan_media(const RequestMedia& media, const Tokenizer& tokenizer, const EncodeOptions& options,
                             std::int64_t other_tokens) {
  if (media.empty()) return MediaPlan();
  CHECK(options.vision.has_value());
  Planner planner(tokenizer, options, other_tokens);
  for (std::size_t i = 0; i < media.images.size(); ++i) {
    TRY(planner.add_image(media.images[i], media.options, fmt::format("images[{}]", i)));
  }
  for (std::size_t i = 0; i < media.videos.size(); ++i) {
    TRY(planner.add_video(media.videos[i], media.options, fmt::format("videos[{}]", i)));
  }
  return std::move(planner).finish();
}

Result<std::vector<EncodedMedia>> load_media(MediaPlan plan, const MediaLimits& limits, std::int64_t first_token) {
  const std::int64_t max_pixels = limit_or(limits.max_image_pixels, kMaxImagePixels);
  std::vector<EncodedMedia> media;
  for (PlannedMedia& item : plan.items) {
    EncodedMedia encoded = std::move(item.encoded);
    for (Span& span : encoded.token_spans) span.first += first_token;
    const auto slice_bytes = static_cast<std::size_t>(patches_bytes(item.size.height, item.size.width));
    for (std::int64_t slice = 0; slice < encoded.grid_t; ++slice) {
      const auto frame = static_cast<std::size_t>(2 * slice);
      const Image first = TRY(load_image(item, frame, max_pixels));
      if (encoded.patches.empty()) encoded.patches.resize(slice_bytes * static_cast<std::size_t>(encoded.grid_t));
      std::uint8_t* const to = encoded.patches.data() + slice_bytes * static_cast<std::size_t>(slice);
      // An image is both frames of its slice, and so is a last frame that has no partner.
      const bool has_partner = frame + 1 < item.files.size();
      if (has_partner) {
        patchify(first, TRY(load_image(item, frame + 1, max_pixels)), to);
      } else {
        patchify(first, first, to);
      }
    }
    media.push_back(std::move(encoded));
  }
  return media;
}

}  // namespace clef
