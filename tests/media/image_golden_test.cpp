// The reference's pixels: each golden file decoded, digest by digest.
#include <gtest/gtest.h>

#include <string>

#include "media/image.h"
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

}  // namespace
}  // namespace clef
