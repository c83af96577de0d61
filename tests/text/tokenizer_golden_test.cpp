// Ids of the reference's tokenizer library, and the pieces it cuts.
#include <gtest/gtest.h>

#include "text/tokenizer_fixture.h"

namespace clef {
namespace {

Tokenizer tokenizer_with(SplitPattern pattern) {
  TokenizerDefinition definition = test::clef_tiny_definition();
  definition.pattern = pattern;
  return test::make(std::move(definition));
}

void expect_golden_ids(const std::string& file, SplitPattern pattern) {
  const Tokenizer tokenizer = tokenizer_with(pattern);
  const std::vector<Json> lines = test::golden_lines(file);
  ASSERT_EQ(lines.size(), 490U);
  for (const Json& line : lines) {
    const std::string& text = *line.find("text")->if_string();
    std::vector<std::int32_t> expected;
    for (const Json& id : *line.find("ids")->if_array()) expected.push_back(std::stoi(id.if_integer()->digits));
    EXPECT_EQ(tokenizer.encode(text), expected) << text;
  }
}

TEST(TokenizerGolden, ClefTinyIsReadWhole) {
  const TokenizerDefinition definition = test::clef_tiny_definition();
  EXPECT_EQ(definition.tokens.size(), 4029U);
  EXPECT_EQ(definition.merges.size(), 3744U);
  EXPECT_EQ(definition.added_tokens.size(), 29U);
  EXPECT_EQ(definition.added_tokens.front(), (AddedToken{4000, "<|endoftext|>", true}));
  EXPECT_EQ(definition.pattern, SplitPattern::qwen2);  // by its tokenizer_class; its file carries the other
}

// tokenizer.jsonl holds what the pattern in the file gives, the other what the class Qwen2Tokenizer makes of the
// folder.
TEST(TokenizerGolden, IdsOfThePatternInTheFile) { expect_golden_ids("tokenizer.jsonl", SplitPattern::qwen35); }
TEST(TokenizerGolden, IdsOfTheClass) { expect_golden_ids("tokenizer_clef-tiny_reference.jsonl", SplitPattern::qwen2); }

struct Pieces {
  std::string text;
  std::vector<std::string> words;
};

// Source: the specification's pieces, cut by Oniguruma.
TEST(TokenizerGolden, PiecesOfBothPatterns) {
  const Pieces cases[] = {
      {"x123 4", {"x", "1", "2", "3", " ", "4"}},
      {"foo...\n\nbar!!  \n", {"foo", "...\n\n", "bar", "!!", "  \n"}},
      {"can't CAN'T", {"can", "'t", " CAN", "'T"}},
      {" 'sabc", {" '", "sabc"}},
      {"'\u017fabc", {"'\u017f", "abc"}},
      {"_a __b a_b", {"_a", " __", "b", " a", "_b"}},
      {"a\u2028b", {"a", "\u2028b"}},
      {"<|im_end|<|im_end|>", {"<|", "im", "_end", "|<|", "im", "_end", "|>"}},
  };
  for (const SplitPattern pattern : {SplitPattern::qwen2, SplitPattern::qwen35}) {
    const Tokenizer tokenizer = tokenizer_with(pattern);
    for (const auto& [text, words] : cases) EXPECT_EQ(tokenizer.split(text), words) << text;
  }
}

TEST(TokenizerGolden, MarksBelongToWordsInOnePatternOnly) {
  const std::string text = "\u0915\u094d \u0915\u094d\u0937";  // ka, virama; space; ka, virama, ssa
  EXPECT_EQ(tokenizer_with(SplitPattern::qwen35).split(text),
            (std::vector<std::string>{"\u0915\u094d", " \u0915\u094d\u0937"}));
  EXPECT_EQ(tokenizer_with(SplitPattern::qwen2).split(text),
            (std::vector<std::string>{"\u0915", "\u094d", " \u0915", "\u094d\u0937"}));
}

}  // namespace
}  // namespace clef
