// The reference's pixels: each golden file decoded, resized and cut into patches, digest by digest.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "media/image.h"
#include "media/patchify.h"
#include "media/resize.h"
#include "support/golden.h"
#include "support/sha256.h"

namespace clef {
namespace {

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(c));
  return out;
}

TEST(ImageGolden, DecodesEveryFileToTheReferencesPixels) {
  const auto lines = test::golden_lines("images.jsonl");
  ASSERT_EQ(lines.size(), 27U);
  for (const Json& line : lines) {
    const std::string& name = *line.find("file")->if_string();
    SCOPED_TRACE(name);
    const std::string file = test::read_file(test::golden_path("images/" + name));
    const auto header = probe_image(bytes_of(file));
    ASSERT_TRUE(header.has_value()) << header.error().message;
    EXPECT_EQ(upper(name_of(header->format)), *line.find("format")->if_string());
    EXPECT_EQ(std::to_string(header->width), line.find("width")->if_integer()->digits);
    EXPECT_EQ(std::to_string(header->height), line.find("height")->if_integer()->digits);
    const auto image = decode_image(bytes_of(file));
    ASSERT_TRUE(image.has_value()) << image.error().message;
    EXPECT_EQ(test::sha256(std::as_bytes(image->bytes())), *line.find("rgb_sha256")->if_string());
  }
}

std::int64_t integer(const Json& value) { return std::stoll(value.if_integer()->digits); }

// Digest of the float32 values that the reference feeds its tower.
std::string pixel_values_sha256(const Image& image) {
  std::vector<std::uint8_t> levels(static_cast<std::size_t>(patches_bytes(image.height, image.width)));
  patchify(image, image, levels.data());
  std::vector<float> values;
  values.reserve(levels.size());
  for (const std::uint8_t level : levels) values.push_back((static_cast<float>(level) - 127.5F) / 127.5F);
  return test::sha256(std::as_bytes(std::span(values)));
}

void expect_grid(const TargetSize& size, const Json& grid_thw) {
  EXPECT_EQ(integer(grid_thw.if_array()->at(0)), 1);
  EXPECT_EQ(size.grid_h(), integer(grid_thw.if_array()->at(1)));
  EXPECT_EQ(size.grid_w(), integer(grid_thw.if_array()->at(2)));
}

TEST(ImageGolden, ResizesAndCutsEveryFileAsTheReference) {
  for (const Json& line : test::golden_lines("images.jsonl")) {
    const std::string& name = *line.find("file")->if_string();
    SCOPED_TRACE(name);
    const std::string file = test::read_file(test::golden_path("images/" + name));
    auto image = decode_image(bytes_of(file));
    ASSERT_TRUE(image.has_value()) << image.error().message;
    const auto size = smart_resize(image->height, image->width, PixelBounds{});
    ASSERT_TRUE(size.has_value()) << size.error().message;
    EXPECT_EQ(size->height, integer(*line.find("resized_height")));
    EXPECT_EQ(size->width, integer(*line.find("resized_width")));
    expect_grid(*size, *line.find("grid_thw"));
    const Image resized = resize(std::move(image).value(), size->height, size->width);
    EXPECT_EQ(test::sha256(std::as_bytes(resized.bytes())), *line.find("resized_rgb_hwc_sha256")->if_string());
    EXPECT_EQ(pixel_values_sha256(resized), *line.find("pixel_values_f32_sha256")->if_string());
  }
}

TEST(ImageGolden, KeepsToOtherBoundsAsTheReference) {
  for (const Json& line : test::golden_lines("images.jsonl")) {
    const std::string& name = *line.find("file")->if_string();
    SCOPED_TRACE(name);
    const Json& small = *line.find("small");
    auto image = decode_image(bytes_of(test::read_file(test::golden_path("images/" + name))));
    ASSERT_TRUE(image.has_value()) << image.error().message;
    const PixelBounds bounds{.min_pixels = integer(*small.find("min_pixels")),
                             .max_pixels = integer(*small.find("max_pixels"))};
    const auto size = smart_resize(image->height, image->width, bounds);
    ASSERT_TRUE(size.has_value()) << size.error().message;
    expect_grid(*size, *small.find("grid_thw"));
    const Image resized = resize(std::move(image).value(), size->height, size->width);
    EXPECT_EQ(pixel_values_sha256(resized), *small.find("pixel_values_f32_sha256")->if_string());
  }
}

}  // namespace
}  // namespace clef
