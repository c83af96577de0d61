#include "record/media.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "record/media_numbers.h"
#include "text/utf8.h"

namespace clef {
namespace {

constexpr std::size_t kMaxQuotedBytes = 60;  // of the request's own text in a message
constexpr double kMaxFps = 1000;

Error bad_request(std::string message) { return {Errc::bad_request, std::move(message)}; }
Error bad_media(std::string_view path, std::string_view message) {
  return bad_request(fmt::format("{}: {}", path, message));
}

bool is_falsy(const Json* value) { return value == nullptr || !value->is_truthy(); }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}
bool starts_with_ignoring_case(std::string_view text, std::string_view start) {
  return equal_ignoring_case(text.substr(0, start.size()), start);
}

std::optional<ImageFormat> format_of_media_type(std::string_view type) {
  for (const ImageFormat format :
       {ImageFormat::png, ImageFormat::jpeg, ImageFormat::webp, ImageFormat::gif, ImageFormat::bmp}) {
    if (equal_ignoring_case(type, media_type_of(format))) return format;
  }
  if (equal_ignoring_case(type, "image/jpg")) return ImageFormat::jpeg;  // not registered, but often sent
  return std::nullopt;
}

constexpr std::string_view kMediaTypes = "image/png, image/jpeg, image/webp, image/gif or image/bmp";

// data:[media type][;parameters];base64,DATA
Status read_data_url(ImageSource& image) {
  const std::string_view url = image.text;
  const std::size_t comma = url.find(',');
  if (comma == std::string_view::npos) return bad_request("data URL without a comma");
  std::string_view header = url.substr(5, comma - 5);
  constexpr std::string_view kBase64 = ";base64";
  const std::size_t end = header.size() < kBase64.size() ? 0 : header.size() - kBase64.size();
  if (!equal_ignoring_case(header.substr(end), kBase64)) return bad_request("data URL is not base64");
  const std::string_view type = header.substr(0, std::min(end, header.find(';')));
  if (!type.empty()) {
    image.declared = format_of_media_type(type);
    image.declared_by = "data URL media type";
    if (!image.declared) {
      return bad_request(
          fmt::format("data URL media type must be {}, not {}", kMediaTypes, utf8_prefix(type, kMaxQuotedBytes)));
    }
  }
  image.base64_at = comma + 1;
  return {};
}

Status read_image_string(ImageSource& image) {
  if (starts_with_ignoring_case(image.text, "data:")) return read_data_url(image);
  for (const std::string_view scheme : {"http://", "https://", "file:"}) {
    if (starts_with_ignoring_case(image.text, scheme)) {
      return bad_request(fmt::format("{} URLs are not fetched; send the file itself as a data URL",
                                     scheme.substr(0, scheme.find(':'))));
    }
  }
  return {};
}

Status read_image_object(ImageSource& image, Json& object) {
  Json* type = object.find("content_type");
  Json* base64 = object.find("base64");
  if (type == nullptr || type->if_string() == nullptr || base64 == nullptr || base64->if_string() == nullptr) {
    return bad_request("an image object needs content_type and base64 strings");
  }
  image.declared = format_of_media_type(*type->if_string());
  image.declared_by = "content_type";
  if (!image.declared) return bad_request(fmt::format("content_type must be {}", kMediaTypes));
  image.text = std::move(*base64->if_string());
  if (starts_with_ignoring_case(image.text, "data:")) return bad_request("base64 must not be a data URL");
  return {};
}

Result<ImageSource> take_image(Json& value) {
  ImageSource image;
  if (std::string* text = value.if_string()) {
    image.text = std::move(*text);
    TRY(read_image_string(image));
  } else if (value.if_object() != nullptr) {
    TRY(read_image_object(image, value));
  } else {
    return bad_request("must be a data URL string or {\"content_type\", \"base64\"}");
  }
  return image;
}

Result<std::vector<ImageSource>> take_images(Json::Array& values, std::string_view path) {
  std::vector<ImageSource> images;
  images.reserve(values.size());
  for (Json& value : values) {
    auto image = take_image(value);
    if (!image) return bad_media(fmt::format("{}[{}]", path, images.size()), image.error().message);
    images.push_back(std::move(image).value());
  }
  return images;
}

// Frames that someone sampled before, each with its place in the source.
Status read_frame_indices(VideoSource& video, const Json& indices, const Json& total, const MediaOptions& options) {
  const Json::Array* list = indices.if_array();
  const auto total_frames = small_integer(total, 1, kMaxClipFrames);
  if (options.do_sample_frames || list == nullptr || list->size() != video.frames.size() || !total_frames ||
      video.frames.size() > static_cast<std::size_t>(kMaxSampledFrames) ||
      static_cast<double>(*total_frames) / video.fps > kMaxClipSeconds) {
    return bad_request(
        "frame_indices requires do_sample_frames=false, one index per frame and a bounded total_num_frames");
  }
  for (const Json& value : *list) {
    const auto index = small_integer(value, 0, *total_frames - 1);
    if (!index || (!video.frame_indices.empty() && *index <= video.frame_indices.back())) {
      return bad_request("frame_indices must be strictly increasing integers in [0,total_num_frames)");
    }
    video.frame_indices.push_back(*index);
  }
  return {};
}

Result<VideoSource> take_video(Json& value, std::string_view path, const MediaOptions& options) {
  const auto bad = [&](std::string_view message) { return bad_media(path, message); };
  const Json::Object* members = value.if_object();
  Json* frames = value.find("frames");
  const Json* fps = value.find("fps");
  if (members == nullptr || frames == nullptr || fps == nullptr) {
    return bad("video must be {frames,fps}; compressed video is not read, send its frames as pictures");
  }
  const Json* indices = value.find("frame_indices");
  const Json* total = value.find("total_num_frames");
  const std::size_t known = 2 + (indices != nullptr ? 1U : 0U) + (total != nullptr ? 1U : 0U);
  if (members->size() != known || (indices == nullptr) != (total == nullptr)) {
    return bad("frame video accepts frames, fps and optional frame_indices with total_num_frames");
  }
  VideoSource video;
  const auto rate = number(*fps);
  const std::size_t count = frames->if_array() == nullptr ? 0 : frames->if_array()->size();
  if (count < 1 || count > static_cast<std::size_t>(kMaxClipFrames) || !rate || !(*rate > 0 && *rate <= kMaxFps) ||
      static_cast<double>(count) / *rate > kMaxClipSeconds) {
    return bad(fmt::format("frames must contain 1..{} images with positive fps and duration <= {} seconds",
                           kMaxClipFrames, kMaxClipSeconds));
  }
  video.fps = *rate;
  video.frames = TRY(take_images(*frames->if_array(), fmt::format("{}.frames", path)));
  if (indices != nullptr) {
    const Status read = read_frame_indices(video, *indices, *total, options);
    if (!read) return bad(read.error().message);
  }
  return video;
}

}  // namespace

Result<RequestMedia> take_media(Json& body) {
  RequestMedia media;
  Json* images = body.find("images");
  Json* videos = body.find("videos");
  const Json* options = body.find("media_kwargs");
  if (!is_falsy(images)) {
    if (images->if_array() == nullptr) {
      return bad_request(
          "images must be a list of data URLs or {\"content_type\", \"base64\"} objects (PNG, JPEG, WebP, GIF or BMP)");
    }
    media.images = TRY(take_images(*images->if_array(), "images"));
  }
  const bool has_videos = !is_falsy(videos);
  if (has_videos && videos->if_array() == nullptr) return bad_request("videos must be a list");
  if ((has_videos || !media.images.empty()) && !is_falsy(options)) {
    media.options = TRY(parse_media_options(*options, has_videos));
  }
  if (has_videos) {
    for (Json& video : *videos->if_array()) {
      media.videos.push_back(TRY(take_video(video, fmt::format("videos[{}]", media.videos.size()), media.options)));
    }
  }
  return media;
}

}  // namespace clef
