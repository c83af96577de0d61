// What `clef-tool tokenize` and `clef-tool encode` print, against the reference's dumps.
#include "model/describe.h"

#include <gtest/gtest.h>

#include "model/model_file.h"
#include "support/golden.h"

namespace clef {
namespace {

Tokenizer tokenizer_of(const std::filesystem::path& path) {
  auto definition = open_tokenizer(path);
  if (!definition) throw std::runtime_error(definition.error().message);
  auto tokenizer = Tokenizer::create(std::move(definition).value());
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
  return std::move(tokenizer).value();
}

TEST(Describe, EncodesTheGoldenRequestsFromFolderAndGguf) {
  for (const auto& path : {test::golden_path("clef-tiny"), test::test_data_path("clef-tiny.gguf")}) {
    const Tokenizer tokenizer = tokenizer_of(path);
    for (const Json& golden : test::golden_lines("text.jsonl")) {
      const Json made = encode_line(*golden.find("request_text")->if_string(), tokenizer, {});
      for (const char* member : {"input_ids", "questions", "media_offset", "truncated_state_tokens"}) {
        ASSERT_NE(made.find(member), nullptr) << to_compact_json(made);
        EXPECT_EQ(*made.find(member), *golden.find(member)) << to_compact_json(*golden.find("name")) << " " << member;
      }
    }
  }
}

TEST(Describe, TokenizesTheGoldenStringsFromAGguf) {
  const Tokenizer tokenizer = tokenizer_of(test::test_data_path("clef-tiny.gguf"));
  for (const Json& golden : test::golden_lines("tokenizer_clef-tiny_reference.jsonl")) {
    const std::string& text = *golden.find("text")->if_string();
    EXPECT_EQ(tokenize_text(text, tokenizer, false, false), *golden.find("ids")) << text;
  }
}

TEST(Describe, AnInvalidRequestIsAnError) {
  const Tokenizer tokenizer = tokenizer_of(test::golden_path("clef-tiny"));
  EXPECT_EQ(to_compact_json(encode_line("{}", tokenizer, {})), R"({"error":"model and state are required"})");
}

TEST(Describe, PiecesAreTheWordsOfTheSplitPattern) {
  const Tokenizer tokenizer = tokenizer_of(test::golden_path("clef-tiny"));
  EXPECT_EQ(to_compact_json(tokenize_text("x123 4", tokenizer, false, true)), R"(["x","1","2","3"," ","4"])");
}

TEST(Describe, TheFirstByteThatIsNoUtf8IsNamed) {
  EXPECT_TRUE(require_utf8("a\xc3\xa9"));
  const Status status = require_utf8("a\xc3");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "byte 1 is no UTF-8");
}

}  // namespace
}  // namespace clef
