#include <fmt/format.h>
#include <gtest/gtest.h>

#include "text/tokenizer_fixture.h"

namespace clef {
namespace {

// A small tokenizer.json that is accepted; tests change one thing in it.
Json small_file() {
  Json::Object vocab;
  for (int b = 0; b < 256; ++b) vocab.emplace_back(byte_symbols(std::string(1, static_cast<char>(b))), b);
  vocab.emplace_back("ab", 256);
  const auto text = [](std::string_view json) { return parse_json(json).value(); };
  return Json::Object{
      {"added_tokens", text(R"([{"id": 257, "content": "<e>", "single_word": false, "lstrip": false, "rstrip": false,
                                 "normalized": false, "special": true}])")},
      {"normalizer", text(R"({"type": "NFC"})")},
      {"pre_tokenizer", text(R"({"type": "Sequence", "pretokenizers": [
           {"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
            "behavior": "Isolated", "invert": false},
           {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}]})")},
      {"model", Json::Object{{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", ""},
                             {"end_of_word_suffix", ""},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"ignore_merges", false},
                             {"vocab", std::move(vocab)},
                             {"merges", Json::Array{"a b"}}}},
  };
}

// The value at a path such as "model.merges" or "pre_tokenizer.pretokenizers.0.type"; added when it is not there.
Json& at(Json& root, std::string_view path) {
  Json* value = &root;
  while (!path.empty()) {
    const std::string key(path.substr(0, path.find('.')));
    path.remove_prefix(std::min(path.size(), key.size() + 1));
    if (value->if_array()) {
      value = const_cast<Json*>(&value->if_array()->at(std::stoul(key)));
    } else {
      Json::Object& members = *value->if_object();
      auto member = std::find_if(members.begin(), members.end(), [&](const auto& m) { return m.first == key; });
      if (member == members.end()) member = members.insert(members.end(), {key, Json()});
      value = &member->second;
    }
  }
  return *value;
}

constexpr const char* kConfig = R"({"tokenizer_class": "Qwen3_5Tokenizer"})";

std::string message_of(const Json& file, std::string_view config = kConfig) {
  const auto definition = parse_tokenizer(to_compact_json(file), config);
  if (definition) return "accepted";
  EXPECT_EQ(definition.error().code, Errc::bad_model);
  return definition.error().message;
}

TEST(TokenizerParse, ReadsTheSmallFile) {
  const TokenizerDefinition expected = test::byte_tokenizer({{"a", "b"}}, {"<e>"});
  Json file = small_file();
  EXPECT_EQ(parse_tokenizer(to_compact_json(file), kConfig).value(), expected);
  at(file, "model.merges") = parse_json(R"([["a", "b"]])").value();
  EXPECT_EQ(parse_tokenizer(to_compact_json(file), "").value(), expected);
  at(file, "added_tokens") = nullptr;
  EXPECT_EQ(message_of(file), "accepted");
}

TEST(TokenizerParse, TheClassDecidesOnThePattern) {
  Json file = small_file();
  const auto pattern = [&](std::string_view config) {
    return parse_tokenizer(to_compact_json(file), config).value().pattern;
  };
  EXPECT_EQ(pattern(R"({"tokenizer_class": "Qwen2Tokenizer"})"), SplitPattern::qwen2);
  EXPECT_EQ(pattern(R"({"tokenizer_class": "Qwen3_5Tokenizer"})"), SplitPattern::qwen2);
  at(file, "pre_tokenizer.pretokenizers.0.pattern.Regex") =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  EXPECT_EQ(pattern(R"({"tokenizer_class": "Qwen2Tokenizer"})"), SplitPattern::qwen2);
  EXPECT_EQ(pattern(R"({"tokenizer_class": "Qwen3_5Tokenizer"})"), SplitPattern::qwen35);
  EXPECT_EQ(pattern(R"({"tokenizer_class": "PreTrainedTokenizerFast"})"), SplitPattern::qwen35);
  EXPECT_EQ(pattern("{}"), SplitPattern::qwen35);
  EXPECT_EQ(pattern(""), SplitPattern::qwen35);
}

TEST(TokenizerParse, TokensMayStandInTheConfigurationOnly) {
  const auto definition = parse_tokenizer(to_compact_json(small_file()), R"({"added_tokens_decoder": {
      "259": {"content": "<g>", "special": false}, "258": {"content": "<f>", "special": true},
      "257": {"content": "<e>", "special": true}}})");
  ASSERT_TRUE(definition) << definition.error().message;
  EXPECT_EQ(definition->added_tokens,
            (std::vector<AddedToken>{{257, "<e>", true}, {258, "<f>", true}, {259, "<g>", false}}));
  EXPECT_EQ(definition->tokens.size(), 260U);
  EXPECT_EQ(definition->tokens[259], "<g>");
}

struct BadFile {
  const char* path;
  const char* value;  // JSON
  const char* message;
};

TEST(TokenizerParse, NamesTheMemberThatIsWrong) {
  const BadFile cases[] = {
      {"normalizer", "null", "normalizer: expected an object, got null"},
      {"normalizer.type", R"("NFD")", "normalizer.type: expected 'NFC', got 'NFD'"},
      {"pre_tokenizer", "[]", "pre_tokenizer: expected an object, got a list"},
      {"pre_tokenizer.type", R"("Whitespace")", "pre_tokenizer.type: expected 'Sequence', got 'Whitespace'"},
      {"pre_tokenizer.pretokenizers", "7", "pre_tokenizer.pretokenizers: expected a list, got 7"},
      {"pre_tokenizer.pretokenizers", "[1]",
       "pre_tokenizer.pretokenizers: expected Split and ByteLevel, got 1 entries"},
      {"pre_tokenizer.pretokenizers.0", "null", "pre_tokenizer.pretokenizers[0]: expected an object, got null"},
      {"pre_tokenizer.pretokenizers.0.type", R"("Digits")",
       "pre_tokenizer.pretokenizers[0].type: expected 'Split', got 'Digits'"},
      {"pre_tokenizer.pretokenizers.0.behavior", R"("Removed")",
       "pre_tokenizer.pretokenizers[0].behavior: expected 'Isolated', got 'Removed'"},
      {"pre_tokenizer.pretokenizers.0.invert", "true",
       "pre_tokenizer.pretokenizers[0].invert: expected false, got true"},
      {"pre_tokenizer.pretokenizers.0.pattern", R"("x")",
       "pre_tokenizer.pretokenizers[0].pattern: expected an object, got 'x'"},
      {"pre_tokenizer.pretokenizers.0.pattern", R"({"String": "x"})",
       "pre_tokenizer.pretokenizers[0].pattern.Regex: expected a string, got nothing"},
      {"pre_tokenizer.pretokenizers.0.pattern.Regex", R"("\\p{L}+")",
       "pre_tokenizer.pretokenizers[0].pattern.Regex: expected the Qwen2 or the Qwen3.5 pattern, got '\\p{L}+'"},
      {"pre_tokenizer.pretokenizers.1.type", R"("Metaspace")",
       "pre_tokenizer.pretokenizers[1].type: expected 'ByteLevel', got 'Metaspace'"},
      {"pre_tokenizer.pretokenizers.1.add_prefix_space", "true",
       "pre_tokenizer.pretokenizers[1].add_prefix_space: expected false, got true"},
      {"pre_tokenizer.pretokenizers.1.use_regex", "true",
       "pre_tokenizer.pretokenizers[1].use_regex: expected false, got true"},
      {"model", "null", "model: expected an object, got null"},
      {"model.type", R"("WordPiece")", "model.type: expected 'BPE', got 'WordPiece'"},
      {"model.dropout", "0.1", "model.dropout: expected null, got 0.1"},
      {"model.unk_token", R"("<unk>")", "model.unk_token: expected null, got '<unk>'"},
      {"model.continuing_subword_prefix", R"("##")", "model.continuing_subword_prefix: expected null, got '##'"},
      {"model.end_of_word_suffix", R"("</w>")", "model.end_of_word_suffix: expected null, got '</w>'"},
      {"model.fuse_unk", "true", "model.fuse_unk: expected false, got true"},
      {"model.byte_fallback", "true", "model.byte_fallback: expected false, got true"},
      {"model.ignore_merges", "true", "model.ignore_merges: expected false, got true"},
      {"model.vocab", "[]", "model.vocab: expected an object, got a list"},
      {"model.vocab.ab", "-1", "model.vocab['ab']: expected an id up to 16777215, got -1"},
      {"model.vocab.ab", "1.0", "model.vocab['ab']: expected an id up to 16777215, got 1.0"},
      {"model.vocab.ab", "16777216", "model.vocab['ab']: expected an id up to 16777215, got 16777216"},
      {"model.vocab.ab", "99999999999999999999",
       "model.vocab['ab']: expected an id up to 16777215, got 99999999999999999999"},
      {"model.vocab.ab", "65", "model.vocab: id 65 is taken by 'A', got 'ab'"},
      {"model.vocab.ab", "16777215", "model.vocab: expected ids without large gaps, got 16777215 for 258 tokens"},
      {"model.merges", "null", "model.merges: expected a list, got null"},
      {"model.merges.0", R"("ab")", R"(model.merges[0]: expected "left right" or ["left", "right"], got 'ab')"},
      {"model.merges.0", R"("a b c")", R"(model.merges[0]: expected "left right" or ["left", "right"], got 'a b c')"},
      {"model.merges.0", R"(["a"])", R"(model.merges[0]: expected "left right" or ["left", "right"], got a list)"},
      {"model.merges.0", R"(["a", 1])", R"(model.merges[0]: expected "left right" or ["left", "right"], got a list)"},
      {"added_tokens", "{}", "added_tokens: expected a list, got an object"},
      {"added_tokens.0", "5", "added_tokens[0]: expected an object, got 5"},
      {"added_tokens.0.id", "null", "added_tokens[0].id: expected an id up to 16777215, got null"},
      {"added_tokens.0.id", "65", "added_tokens[0]: id 65 is taken by 'A', got '<e>'"},
      {"added_tokens.0.content", "1", "added_tokens[0].content: expected a string, got 1"},
      {"added_tokens.0.content", R"("")", "added_tokens[0].content: expected text, got ''"},
      {"added_tokens.0.normalized", "true", "added_tokens[0].normalized: expected false, got true"},
      {"added_tokens.0.lstrip", "true", "added_tokens[0].lstrip: expected false, got true"},
      {"added_tokens.0.rstrip", "true", "added_tokens[0].rstrip: expected false, got true"},
      {"added_tokens.0.single_word", R"("no")", "added_tokens[0].single_word: expected false, got 'no'"},
  };
  for (const auto& [path, value, message] : cases) {
    Json file = small_file();
    at(file, path) = parse_json(value).value();
    EXPECT_EQ(message_of(file), fmt::format("tokenizer: {}", message));
  }
}

TEST(TokenizerParse, NamesTheMemberOfTheConfiguration) {
  const Json file = small_file();
  EXPECT_EQ(message_of(file, "[]"), "tokenizer: tokenizer_config.json: expected an object, got a list");
  EXPECT_EQ(message_of(file, R"({"added_tokens_decoder": 1})"),
            "tokenizer: added_tokens_decoder: expected an object, got 1");
  EXPECT_EQ(message_of(file, R"({"added_tokens_decoder": {"x": {"content": "<f>"}}})"),
            "tokenizer: added_tokens_decoder['x']: expected an id up to 16777215 as the key");
  EXPECT_EQ(message_of(file, R"({"added_tokens_decoder": {"257": {"content": "<f>"}}})"),
            "tokenizer: added_tokens_decoder['257']: id 257 is taken by '<e>', got '<f>'");
  EXPECT_EQ(message_of(file, R"({"added_tokens_decoder": {"258": {"content": "<f>", "lstrip": true}}})"),
            "tokenizer: added_tokens_decoder['258'].lstrip: expected false, got true");
}

TEST(TokenizerParse, RefusesWhatIsNoJson) {
  const auto definition = parse_tokenizer("{", kConfig);
  ASSERT_FALSE(definition);
  EXPECT_EQ(definition.error().code, Errc::bad_model);
  EXPECT_EQ(definition.error().message.find("tokenizer: tokenizer.json: json: "), 0U) << definition.error().message;
  EXPECT_EQ(message_of(small_file(), "nonsense").find("tokenizer: tokenizer_config.json: json: "), 0U);
}

TEST(TokenizerParse, ShortensWhatItQuotes) {
  Json file = small_file();
  at(file, "model.type") = std::string(100000, 'x');
  EXPECT_LT(message_of(file).size(), 200U);
}

TEST(TokenizerParse, RefusesTooManyAddedTokens) {
  Json file = small_file();
  Json::Array tokens;
  for (int i = 0; i < 65537; ++i) {
    tokens.push_back(Json::Object{{"id", 300 + i}, {"content", fmt::format("<{}>", i)}});
  }
  at(file, "added_tokens") = std::move(tokens);
  EXPECT_EQ(message_of(file), "tokenizer: added_tokens: expected at most 65536, got 65537");
}

}  // namespace
}  // namespace clef
