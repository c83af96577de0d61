#include "media/video.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "media/resize.h"
#include "support/golden.h"

namespace clef {
namespace {

std::int64_t integer(const Json& value) { return std::stoll(value.if_integer()->digits); }

std::vector<std::int64_t> sampled(std::int64_t frames, double fps) {
  return evenly_spaced(frames, sampled_frame_count(frames, {.source_fps = fps}));
}

std::vector<std::string> stamps(std::int64_t frames, double fps) {
  const auto indices = sampled(frames, fps);
  std::vector<std::string> texts;
  for (std::int64_t slice = 0; slice < num_slices(static_cast<std::int64_t>(indices.size())); ++slice) {
    texts.push_back(slice_timestamp(indices, slice, fps));
  }
  return texts;
}

TEST(Video, SamplesTheReferencesFrames) {
  int compared = 0;
  for (const Json& line : test::golden_lines("video.jsonl")) {
    std::vector<std::int64_t> expected;
    for (const Json& index : *line.find("frames_indices")->if_array()) expected.push_back(integer(index));
    const std::int64_t frames = integer(line.find("frames_shape")->if_array()->at(0));
    const bool sampling = line.find("media_kwargs")->find("do_sample_frames") == nullptr;
    EXPECT_EQ(sampling ? sampled(frames, 24) : evenly_spaced(frames, frames), expected)
        << *line.find("name")->if_string();
    ++compared;
  }
  EXPECT_EQ(compared, 4);
}

TEST(Video, SamplesAndStampsPublishedClips) {
  EXPECT_EQ(sampled(24, 24), (std::vector<std::int64_t>{0, 8, 15, 23}));
  EXPECT_EQ(stamps(24, 24), (std::vector<std::string>{"<0.2 seconds>", "<0.8 seconds>"}));
  const auto hundred = sampled(100, 24);
  EXPECT_EQ((std::vector(hundred.begin(), hundred.begin() + 6)), (std::vector<std::int64_t>{0, 14, 28, 42, 57, 71}));
  const auto hundred_stamps = stamps(100, 24);
  EXPECT_EQ((std::vector(hundred_stamps.begin(), hundred_stamps.begin() + 4)),
            (std::vector<std::string>{"<0.3 seconds>", "<1.5 seconds>", "<2.7 seconds>", "<3.8 seconds>"}));
  EXPECT_EQ(stamps(3, 24), (std::vector<std::string>{"<0.0 seconds>", "<0.1 seconds>"}));
}

TEST(Video, PrintsAnExactTieEven) {
  EXPECT_EQ(slice_timestamp(std::vector<std::int64_t>{0, 1}, 0, 2), "<0.2 seconds>");  // 0.25
  EXPECT_EQ(slice_timestamp(std::vector<std::int64_t>{1, 2}, 0, 2), "<0.8 seconds>");  // 0.75
}

TEST(Video, CountsFramesWithinItsBounds) {
  EXPECT_EQ(sampled_frame_count(1, {.source_fps = 24}), 1);
  EXPECT_EQ(sampled_frame_count(3, {.source_fps = 24}), 3);
  EXPECT_EQ(sampled_frame_count(30, {.source_fps = 24}), 4);
  EXPECT_EQ(sampled_frame_count(18000, {.source_fps = 24}), 768);
  EXPECT_EQ(sampled_frame_count(18000, {.source_fps = 1e-9}), 768);  // more than an integer holds
  EXPECT_EQ(sampled_frame_count(500, {.source_fps = 1e-300, .target_fps = 1000}), 500);
}

// Sizes and frame counts from transformers 5.17; height before width.
TEST(SmartResize, GivesPublishedSizes) {
  const struct {
    std::int64_t height, width, target_height, target_width, tokens;
  } cases[] = {
      {777, 333, 768, 320, 240},      {480, 640, 480, 640, 300},       {1080, 1920, 1088, 1920, 2040},
      {2160, 3840, 2176, 3840, 8160}, {252, 336, 256, 320, 80},        {16, 16, 256, 256, 64},
      {1, 200, 32, 3648, 114},        {4096, 4097, 4096, 4096, 16384}, {5000, 4000, 4576, 3648, 16302},
  };
  for (const auto& c : cases) {
    const auto size = smart_resize(c.height, c.width, {});
    ASSERT_TRUE(size);
    EXPECT_EQ(size->height, c.target_height);
    EXPECT_EQ(size->width, c.target_width);
    EXPECT_EQ(size->tokens(), c.tokens);
  }
}

TEST(SmartResize, GivesPublishedVideoSizes) {
  const PixelBounds bounds{.min_pixels = 4096, .max_pixels = 25165824};
  const struct {
    std::int64_t frames, height, width, target_height, target_width;
  } cases[] = {
      {32, 1080, 1920, 640, 1152}, {5, 1800, 2800, 1792, 2816}, {13, 1080, 1800, 1088, 1792}, {4, 20, 20, 32, 32}};
  for (const auto& c : cases) {
    const auto size = smart_resize_video(c.frames, c.height, c.width, bounds);
    ASSERT_TRUE(size);
    EXPECT_EQ(size->height, c.target_height);
    EXPECT_EQ(size->width, c.target_width);
  }
}

TEST(SmartResize, RefusesThreadsAndSingleFrames) {
  EXPECT_TRUE(smart_resize(1, 200, {}));
  const auto thread = smart_resize(1, 333, {});
  ASSERT_FALSE(thread);
  EXPECT_EQ(thread.error().code, Errc::bad_request);
  EXPECT_EQ(thread.error().message, "333x1: absolute aspect ratio must be smaller than 200, got 333.0");
  const auto frame = smart_resize_video(1, 64, 64, {});
  ASSERT_FALSE(frame);
  EXPECT_EQ(frame.error().message, "a video needs at least 2 sampled frames, got 1");
}

}  // namespace
}  // namespace clef
