#include "media/base64.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "support/pictures.h"

namespace clef {
namespace {

constexpr std::size_t kNoLimit = std::size_t{1} << 30;

std::string decoded(std::string_view text) {
  const auto bytes = decode_base64(text, kNoLimit);
  return bytes ? std::string(bytes->begin(), bytes->end()) : "error: " + bytes.error().message;
}

TEST(Base64, DecodesTheVectorsOfRfc4648) {
  EXPECT_EQ(decoded(""), "");
  EXPECT_EQ(decoded("Zg=="), "f");
  EXPECT_EQ(decoded("Zm8="), "fo");
  EXPECT_EQ(decoded("Zm9v"), "foo");
  EXPECT_EQ(decoded("Zm9vYg=="), "foob");
  EXPECT_EQ(decoded("Zm9vYmE="), "fooba");
  EXPECT_EQ(decoded("Zm9vYmFy"), "foobar");
}

TEST(Base64, DecodesWhatAnEncoderWrites) {
  std::mt19937 random(1);
  for (std::size_t size = 0; size < 300; ++size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(random() & 255);
    EXPECT_EQ(decoded(test::to_base64(bytes)), bytes);
  }
}

TEST(Base64, RefusesEveryOtherCharacterAtEveryPlace) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int c = 0; c < 256; ++c) {
    const char character = static_cast<char>(c);
    const bool valid = kAlphabet.find(character) != std::string_view::npos;
    for (std::size_t at = 0; at < 8; ++at) {
      std::string text = "AAAAAAAA";
      text[at] = character;
      if (character == '=' && at == 7) continue;  // padding
      EXPECT_EQ(decode_base64(text, kNoLimit).has_value(), valid) << c << " at " << at;
    }
  }
}

TEST(Base64, SaysWhatIsWrong) {
  EXPECT_EQ(decoded("Zg"), "error: base64 length is not a multiple of 4 (padding required)");
  EXPECT_EQ(decoded("Zm9v\n"), "error: base64 length is not a multiple of 4 (padding required)");
  EXPECT_EQ(decoded("Zm 9"), "error: invalid base64 character");
  EXPECT_EQ(decoded("Zm-_"), "error: invalid base64 character");
  EXPECT_EQ(decoded("Z!=="), "error: invalid base64 character");
  EXPECT_EQ(decoded("Z==="), "error: invalid base64 padding");
  EXPECT_EQ(decoded("===="), "error: invalid base64 padding");
  EXPECT_EQ(decoded("Zg==Zg=="), "error: invalid base64 padding");
  EXPECT_EQ(decoded("Z=g="), "error: invalid base64 padding");
}

TEST(Base64, KeepsToTheLimitBeforeDecoding) {
  EXPECT_TRUE(decode_base64("Zm9vYmFy", 6));
  EXPECT_TRUE(decode_base64("Zm9vYmE=", 5));
  const auto refused = decode_base64("!!!!!!!!", 5);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::too_large);
  EXPECT_EQ(refused.error().message, "encoded data of 6 bytes exceeds the limit of 5 bytes");
}

}  // namespace
}  // namespace clef
