#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "media/base64.h"

namespace clef {
namespace {

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string encoded(std::string_view text) {
  std::string out;
  append_base64(out, bytes_of(text));
  return out;
}

TEST(AppendBase64, GivesTheVectorsOfRfc4648) {
  EXPECT_EQ(encoded(""), "");
  EXPECT_EQ(encoded("f"), "Zg==");
  EXPECT_EQ(encoded("fo"), "Zm8=");
  EXPECT_EQ(encoded("foo"), "Zm9v");
  EXPECT_EQ(encoded("foob"), "Zm9vYg==");
  EXPECT_EQ(encoded("fooba"), "Zm9vYmE=");
  EXPECT_EQ(encoded("foobar"), "Zm9vYmFy");
}

TEST(AppendBase64, GivesBackEveryByteInEveryPlace) {
  std::string bytes;
  for (int i = 0; i < 3 * 256; ++i) bytes += static_cast<char>(i * 7 + i / 256);
  const auto decoded = decode_base64(encoded(bytes), bytes.size());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::string(decoded->begin(), decoded->end()), bytes);
}

TEST(AppendBase64, KeepsWhatWasThere) {
  std::string url = "data:image/png;base64,";
  append_base64(url, bytes_of("foo"));
  EXPECT_EQ(url, "data:image/png;base64,Zm9v");
}

}  // namespace
}  // namespace clef
