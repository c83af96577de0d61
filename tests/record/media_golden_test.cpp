// Records with images and videos against the reference's: ids, spans, grids, pixels, sampled frames and positions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "record/encode.h"
#include "support/golden.h"
#include "support/media_requests.h"
#include "support/sha256.h"

namespace clef {
namespace {

const Tokenizer& tokenizer_of(const std::string& model) {
  static std::map<std::string, Tokenizer> loaded;
  if (const auto found = loaded.find(model); found != loaded.end()) return found->second;
  auto definition = parse_tokenizer(test::read_file(test::golden_path(model + "/tokenizer.json")),
                                    test::read_file(test::golden_path(model + "/tokenizer_config.json")));
  CHECK(definition.has_value(), "{}", definition.error().message);
  auto tokenizer = Tokenizer::create(std::move(definition).value());
  CHECK(tokenizer.has_value(), "{}", tokenizer.error().message);
  return loaded.emplace(model, std::move(tokenizer).value()).first->second;
}

// The ids of both small models, from their config.json.
VisionInput vision_input() {
  return {.image_token_id = 4012, .video_token_id = 4013, .vision_start_token_id = 4009, .vision_end_token_id = 4010};
}

std::int64_t integer(const Json& value) { return std::stoll(value.if_integer()->digits); }

std::vector<std::int64_t> integers(const Json& list) {
  std::vector<std::int64_t> values;
  for (const Json& value : *list.if_array()) values.push_back(integer(value));
  return values;
}

std::vector<std::vector<std::int64_t>> integer_lists(const Json* lists) {
  std::vector<std::vector<std::int64_t>> values;
  if (lists != nullptr) {
    for (const Json& list : *lists->if_array()) values.push_back(integers(list));
  }
  return values;
}

Result<EncodedRecord> encode_body(Json body, const std::string& model, const EncodeOptions& options) {
  const Request request = TRY(parse_request(std::move(body)));
  return encode(request, tokenizer_of(model), options);
}

std::string pixel_values_sha256(const EncodedMedia& media) {
  std::vector<float> values;
  values.reserve(media.patches.size());
  for (const std::uint8_t level : media.patches) values.push_back((static_cast<float>(level) - 127.5F) / 127.5F);
  return test::sha256(std::as_bytes(std::span(values)));
}

// Every pad of `id` lies in a span of that kind, and nothing else does.
void expect_spans_cover_pads(const EncodedRecord& encoded, MediaKind kind, std::int32_t id) {
  std::vector<std::int64_t> covered, pads;
  for (const EncodedMedia& media : encoded.media) {
    for (const Span span : media.token_spans) {
      if (media.kind != kind) continue;
      for (std::int64_t token = span.first; token < span.end(); ++token) covered.push_back(token);
    }
  }
  for (std::size_t token = 0; token < encoded.input_ids.size(); ++token) {
    if (encoded.input_ids[token] == id) pads.push_back(static_cast<std::int64_t>(token));
  }
  EXPECT_EQ(covered, pads);
}

void expect_as_golden(const EncodedRecord& encoded, const Json& record) {
  const std::vector<std::int64_t> ids(encoded.input_ids.begin(), encoded.input_ids.end());
  EXPECT_EQ(ids, integers(*record.find("input_ids")));
  const Json::Array& questions = *record.find("questions")->if_array();
  ASSERT_EQ(encoded.questions.size(), questions.size());
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const EncodedQuestion& question = encoded.questions[i];
    EXPECT_EQ((std::vector{question.span.first, question.span.end()}), integers(*questions[i].find("span")));
    std::vector<std::vector<std::int64_t>> spans;
    for (const Span span : question.option_spans) spans.push_back({span.first, span.end()});
    EXPECT_EQ(spans, integer_lists(questions[i].find("option_spans")));
  }
  std::vector<std::vector<std::int64_t>> grids[2];
  for (const EncodedMedia& media : encoded.media) {
    grids[media.kind == MediaKind::image ? 0 : 1].push_back({media.grid_t, media.grid_h, media.grid_w});
    EXPECT_EQ(static_cast<std::int64_t>(media.patches.size()), media.grid_t * media.grid_h * media.grid_w * 1536);
    EXPECT_EQ(static_cast<std::int64_t>(media.token_spans.size()), media.grid_t);
  }
  EXPECT_EQ(grids[0], integer_lists(record.find("image_grid_thw")));
  EXPECT_EQ(grids[1], integer_lists(record.find("video_grid_thw")));
  std::vector<std::vector<std::int64_t>> positions;
  if (!encoded.positions.empty()) positions.resize(3);
  for (const auto& position : encoded.positions) {
    for (std::size_t axis = 0; axis < 3; ++axis) positions[axis].push_back(position[axis]);
  }
  EXPECT_EQ(positions, integer_lists(record.find("position_ids")));
  expect_spans_cover_pads(encoded, MediaKind::image, 4012);
  expect_spans_cover_pads(encoded, MediaKind::video, 4013);
}

TEST(MediaGolden, EncodesRecordsWithImagesAsTheReference) {
  const auto records = test::golden_lines("vision.jsonl");
  ASSERT_EQ(records.size(), 5U);
  for (const Json& record : records) {
    SCOPED_TRACE(*record.find("name")->if_string());
    const auto encoded = encode_body(test::media_request(record, {}), "clef-tiny", {.vision = vision_input()});
    ASSERT_TRUE(encoded.has_value()) << encoded.error().message;
    expect_as_golden(*encoded, record);
  }
}

TEST(MediaGolden, EncodesRecordsWithVideosAsTheReference) {
  const auto records = test::golden_lines("video.jsonl");
  ASSERT_EQ(records.size(), 4U);
  for (const Json& record : records) {
    const std::string& name = *record.find("name")->if_string();
    SCOPED_TRACE(name);
    const auto encoded = encode_body(test::media_request(record, {name}), "clef-tiny", {.vision = vision_input()});
    ASSERT_TRUE(encoded.has_value()) << encoded.error().message;
    expect_as_golden(*encoded, record);
    ASSERT_EQ(encoded->media.size(), 1U);
    EXPECT_EQ(pixel_values_sha256(encoded->media[0]), *record.find("pixel_values_f32_sha256")->if_string());
  }
}

TEST(MediaGolden, EncodesTheSecondModelsRecordsAsTheReference) {
  int with_media = 0;
  for (const Json& record : test::golden_lines("tiny27.jsonl")) {
    SCOPED_TRACE(*record.find("name")->if_string());
    std::vector<std::string> videos;
    for (const Json& name : *record.find("videos")->if_array()) videos.push_back(*name.if_string());
    const auto encoded = encode_body(test::media_request(record, videos), "clef-tiny27", {.vision = vision_input()});
    ASSERT_TRUE(encoded.has_value()) << encoded.error().message;
    expect_as_golden(*encoded, record);
    with_media += encoded->media.empty() ? 0 : 1;
  }
  EXPECT_EQ(with_media, 5);
}

}  // namespace
}  // namespace clef
