// media_kwargs: the processor's settings that a request may choose.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "record/media.h"
#include "record/media_numbers.h"
#include "text/utf8.h"

namespace clef {
namespace {

constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr double kMaxSamplingFps = 1000;
constexpr std::size_t kMaxQuotedBytes = 60;  // of a member's name in a message

Error bad_request(std::string message) { return {Errc::bad_request, std::move(message)}; }

std::string quoted(std::string_view name) { return std::string(utf8_prefix(name, kMaxQuotedBytes)); }

Status read_video_size(MediaOptions& options, const Json& size) {
  const Json* shortest = size.find("shortest_edge");
  const Json* longest = size.find("longest_edge");
  if (shortest != nullptr && longest != nullptr && size.if_object()->size() == 2) {
    const auto least = small_integer(*shortest, 1, kMaxInt32), most = small_integer(*longest, 1, kMaxInt32);
    if (least && most && *least <= *most) {
      options.video_bounds = {.min_pixels = *least, .max_pixels = *most};
      return {};
    }
  }
  return bad_request("video size needs positive shortest_edge <= longest_edge");
}

Status read_videos_kwargs(MediaOptions& options, const Json& kwargs) {
  if (kwargs.if_object() == nullptr) return bad_request("videos_kwargs must be an object");
  for (const auto& [name, value] : *kwargs.if_object()) {
    if (name == "fps") {
      if (value.is_null()) continue;  // how the reference is told that num_frames shall count
      options.video_fps = number(value);
      if (!options.video_fps || !(*options.video_fps > 0 && *options.video_fps <= kMaxSamplingFps)) {
        return bad_request("sampling fps must be finite and in (0,1000]");
      }
    } else if (name == "num_frames") {
      options.video_num_frames = small_integer(value, 1, kMaxInt32);
      if (!options.video_num_frames) return bad_request("num_frames must be a positive integer");
    } else if (name == "do_sample_frames") {
      const bool* sample = value.if_bool();
      if (sample == nullptr) return bad_request("do_sample_frames must be boolean");
      options.do_sample_frames = *sample;
    } else if (name == "size") {
      TRY(read_video_size(options, value));
    } else {
      return bad_request(fmt::format("unsupported videos_kwargs: {}", quoted(name)));
    }
  }
  const bool chosen = options.video_fps || options.video_num_frames;
  if ((options.video_fps && options.video_num_frames) || (chosen && !options.do_sample_frames)) {
    return bad_request("choose sampling fps or num_frames; neither with do_sample_frames=false");
  }
  return {};
}

}  // namespace

std::optional<std::int64_t> small_integer(const Json& value, std::int64_t least, std::int64_t most) {
  const Json::Integer* integer = value.if_integer();
  if (integer == nullptr || integer->digits.size() > 18) return std::nullopt;
  const std::int64_t parsed = std::strtoll(integer->digits.c_str(), nullptr, 10);
  return parsed >= least && parsed <= most ? std::optional(parsed) : std::nullopt;
}

std::optional<double> number(const Json& value) {
  if (const double* real = value.if_double()) return *real;
  const Json::Integer* integer = value.if_integer();
  if (integer == nullptr) return std::nullopt;
  return std::strtod(integer->digits.c_str(), nullptr);  // digits alone: no locale has a say
}

Result<MediaOptions> parse_media_options(const Json& media_kwargs, bool has_videos) {
  if (media_kwargs.if_object() == nullptr) return bad_request("media_kwargs must be an object");
  MediaOptions options;
  std::optional<std::int64_t> least, most;
  for (const auto& [name, value] : *media_kwargs.if_object()) {
    if (name == "videos_kwargs") {
      if (!has_videos) continue;
      const Status read = read_videos_kwargs(options, value);
      // They go for all videos, so the first is the first they fail for.
      if (!read) return bad_request(fmt::format("videos[0]: {}", read.error().message));
      continue;
    }
    if (name != "min_pixels" && name != "max_pixels") {
      return bad_request(fmt::format(
          "media_kwargs: only min_pixels, max_pixels and videos_kwargs are supported, not {}", quoted(name)));
    }
    auto& bound = name == "min_pixels" ? least : most;
    bound = small_integer(value, 1, kMaxInt32);
    if (!bound) return bad_request(fmt::format("media_kwargs: {} must be a positive integer", name));
  }
  if (least.has_value() != most.has_value()) {
    return bad_request("media_kwargs: give both min_pixels and max_pixels (the reference ignores one alone)");
  }
  if (least) {
    if (*least > *most) return bad_request("media_kwargs: min_pixels exceeds max_pixels");
    options.image_bounds = {.min_pixels = *least, .max_pixels = *most};
  }
  return options;
}

}  // namespace clef
