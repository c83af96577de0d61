#include "support/media_requests.h"

#include <cstdint>
#include <span>

#include "base/check.h"
#include "support/golden.h"
#include "support/npz.h"
#include "support/pictures.h"

namespace clef::test {
namespace {

// A golden clip as the request's frames, each a BMP.
Json video_of(const std::string& name) {
  const ByteArray clip = read_npz(golden_path("video_" + name + ".npz"), "frames");
  const std::int64_t height = clip.shape.at(1), width = clip.shape.at(2);
  const auto frame_bytes = static_cast<std::size_t>(height * width * 3);
  Json::Array frames;
  for (std::int64_t i = 0; i < clip.shape.at(0); ++i) {
    const auto pixels = std::span(clip.values).subspan(static_cast<std::size_t>(i) * frame_bytes, frame_bytes);
    frames.emplace_back(to_base64(bmp_of(pixels, width, height)));
  }
  // The reference takes frame arrays to have 24 frames a second.
  return Json::Object{{"frames", Json(std::move(frames))}, {"fps", Json(24)}};
}

// The golden files hold what was given to the processor; a request keeps a video's settings in videos_kwargs.
Json media_kwargs_of(const Json& record) {
  Json::Object kwargs = *record.find("media_kwargs")->if_object();
  if (kwargs.size() == 1 && kwargs[0].first == "do_sample_frames") return Json::Object{{"videos_kwargs", Json(kwargs)}};
  return kwargs;
}

}  // namespace

Json media_request(const Json& record, const std::vector<std::string>& videos) {
  Json body;
  if (const Json* text = record.find("request_text")) {
    auto parsed = parse_json(*text->if_string());
    CHECK(parsed.has_value());
    body = std::move(parsed).value();
  } else {
    body = *record.find("request");
  }
  Json::Array image_values, video_values;
  for (const Json& name : *record.find("images")->if_array()) {
    image_values.emplace_back(golden_data_url(*name.if_string()));
  }
  for (const std::string& name : videos) video_values.push_back(video_of(name));
  body.if_object()->emplace_back("images", Json(std::move(image_values)));
  body.if_object()->emplace_back("videos", Json(std::move(video_values)));
  body.if_object()->emplace_back("media_kwargs", media_kwargs_of(record));
  return body;
}

std::vector<std::string> videos_of(const Json& record) {
  const Json* listed = record.find("videos");
  if (listed == nullptr) {
    return record.find("video_grid_thw") == nullptr ? std::vector<std::string>{}
                                                    : std::vector{*record.find("name")->if_string()};
  }
  std::vector<std::string> names;
  for (const Json& name : *listed->if_array()) names.push_back(*name.if_string());
  return names;
}

}  // namespace clef::test
