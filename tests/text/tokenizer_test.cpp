#include "text/tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

#include "text/tokenizer_fixture.h"
#include "text/unicode.h"

namespace clef {
namespace {

using Ids = std::vector<std::int32_t>;
using test::byte_tokenizer;
using test::clef_tiny_definition;
using test::decode;
using test::make;

std::string message_of(TokenizerDefinition definition) {
  const auto tokenizer = Tokenizer::create(std::move(definition));
  if (tokenizer) return "accepted";
  EXPECT_EQ(tokenizer.error().code, Errc::bad_model);
  return tokenizer.error().message;
}

TEST(TokenizerCreate, RefusesWhatCannotEncode) {
  TokenizerDefinition definition = byte_tokenizer();
  definition.tokens[65] = "";
  EXPECT_EQ(message_of(definition), "tokenizer: no token for the byte 0x41 ('A')");

  definition = byte_tokenizer({{"a", "b"}});
  definition.merges.emplace_back("ab", "cd");
  EXPECT_EQ(message_of(definition), "tokenizer: merges[1]: no token 'cd'");
  definition.merges.back() = {"ab", "c"};
  EXPECT_EQ(message_of(definition), "tokenizer: merges[1]: no token 'abc'");
  definition.merges.back() = {"\u4e2d", "c"};
  EXPECT_EQ(message_of(definition), "tokenizer: merges[1]: no token '\u4e2d'");

  definition = byte_tokenizer({{"a", "b"}});
  definition.tokens.push_back("ab");
  EXPECT_EQ(message_of(definition), "tokenizer: tokens[256] and tokens[257] are both 'ab'");
  definition.tokens.back() = "a token of more than fifteen bytes";
  definition.tokens.push_back("a");
  EXPECT_EQ(message_of(definition), "tokenizer: tokens[97] and tokens[258] are both 'a'");

  definition = byte_tokenizer({}, {"<x>"});
  definition.added_tokens[0].id = 257;
  EXPECT_EQ(message_of(definition), "tokenizer: added_tokens[0]: expected an id below 257, got 257");
  definition.added_tokens[0].id = -1;
  EXPECT_EQ(message_of(definition), "tokenizer: added_tokens[0]: expected an id below 257, got -1");
  definition.added_tokens[0].id = 65;
  EXPECT_EQ(message_of(definition), "tokenizer: added_tokens[0]: expected the text of tokens[65], got '<x>'");
  definition.added_tokens[0] = {256, "", true};
  EXPECT_EQ(message_of(definition), "tokenizer: added_tokens[0]: expected text, got none");
  definition.added_tokens[0] = {256, "<x>", true};
  definition.added_tokens.push_back({256, "<x>", false});
  EXPECT_EQ(message_of(definition), "tokenizer: added_tokens[1]: id 256 comes twice");
  definition = byte_tokenizer({}, {"< x >", "< x >"});
  EXPECT_EQ(message_of(definition), "tokenizer: added_tokens[1]: '< x >' comes twice");

  definition = byte_tokenizer();
  definition.added_tokens.resize((std::size_t{1} << 16) + 1);
  EXPECT_EQ(message_of(definition), "tokenizer: added_tokens: expected at most 65536, got 65537");
}

TEST(TokenizerCreate, TakesIdsThatStandForNothing) {
  TokenizerDefinition definition = byte_tokenizer({{"a", "b"}});
  definition.tokens.resize(300);
  EXPECT_EQ(make(std::move(definition)).encode("abc"), (Ids{256, 'c'}));
}

TEST(Tokenizer, MergesTheLowestRankLeftmostFirst) {
  const Tokenizer tokenizer = make(byte_tokenizer({{"b", "c"}, {"a", "b"}, {"a", "a"}, {"aa", "a"}}));
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{'a', 256}));
  EXPECT_EQ(tokenizer.encode("abab"), (Ids{257, 257}));
  EXPECT_EQ(tokenizer.encode("aaaa"), (Ids{258, 258}));
  EXPECT_EQ(tokenizer.encode("aaaaa"), (Ids{258, 259}));
}

// A token that no order of merges leads to is never taken, not even for a word that is its text.
TEST(Tokenizer, NeverTakesATokenTheMergesDoNotLeadTo) {
  TokenizerDefinition definition = byte_tokenizer({{"b", "c"}, {"a", "b"}, {"ab", "c"}});
  definition.tokens.push_back("xyz");
  const Tokenizer tokenizer = make(std::move(definition));
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{'a', 256}));
  EXPECT_EQ(tokenizer.encode("xyz"), (Ids{'x', 'y', 'z'}));
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{'a', 256}));  // and not the second time either
}

TEST(Tokenizer, AMillionLettersAreOneWord) {
  const Tokenizer tokenizer = make(clef_tiny_definition());
  const std::size_t length = 1000000;
  EXPECT_EQ(decode(tokenizer, tokenizer.encode(std::string(length, 'a'))), std::string(length, 'a'));
  std::string mixed;
  std::mt19937 random(3);
  while (mixed.size() < length) mixed += static_cast<char>('a' + random() % 26);
  EXPECT_EQ(decode(tokenizer, tokenizer.encode(mixed)), mixed);
  const Tokenizer doubling = make(byte_tokenizer({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}));
  EXPECT_EQ(doubling.encode(std::string(8 * 100000 + 7, 'a')).size(), 100003U);
}

TEST(Tokenizer, AddedTokensAreTakenFromRawText) {
  const Tokenizer tokenizer = make(byte_tokenizer({}, {"<e>", "<e>x", "e\u0301", "<<"}));
  EXPECT_EQ(tokenizer.encode("<e>"), Ids{256});
  EXPECT_EQ(tokenizer.encode("a<e>xb"), (Ids{'a', 257, 'b'}));             // the longest
  EXPECT_EQ(tokenizer.encode("<<e>"), (Ids{259, 'e', '>'}));               // the leftmost
  EXPECT_EQ(tokenizer.encode("e\u0301"), Ids{258});                        // before normalisation
  EXPECT_EQ(tokenizer.encode("\u00e9"), (Ids{0xc3, 0xa9}));                // which does not undo it
  EXPECT_EQ(tokenizer.encode("e<e>\u0301"), (Ids{'e', 256, 0xcc, 0x81}));  // nothing composes across one
  EXPECT_EQ(tokenizer.encode("<e"), (Ids{'<', 'e'}));
  EXPECT_EQ(tokenizer.added_token_id("<e>x"), 257);
  EXPECT_EQ(tokenizer.added_token_id("<e"), -1);
}

TEST(Tokenizer, StrictTextNeverBecomesAnAddedToken) {
  const Tokenizer tokenizer = make(clef_tiny_definition());
  const auto is_added = [&](std::int32_t id) { return id >= 4000; };
  std::string all;
  for (const AddedToken& token : tokenizer.definition().added_tokens) {
    EXPECT_EQ(tokenizer.encode(token.content), Ids{token.id});
    const Ids strict = tokenizer.encode(token.content, {.match_added_tokens = false});
    EXPECT_TRUE(std::none_of(strict.begin(), strict.end(), is_added)) << token.content;
    EXPECT_EQ(decode(tokenizer, strict), token.content);
    all += "text " + token.content;
  }
  const Ids strict = tokenizer.encode(all, {.match_added_tokens = false});
  EXPECT_TRUE(std::none_of(strict.begin(), strict.end(), is_added));
  EXPECT_EQ(std::ranges::count_if(tokenizer.encode(all), is_added), 29);
}

// Text of many windows, with what may lie on a window's border.
std::string long_text(std::size_t bytes, unsigned seed) {
  const std::vector<std::string> parts = {
      "the ",       "state",  " of",          "\n",         "  ",       "42",
      "e\u0301",    "\u0301", "\u1df8",       "\u1100",     "\u1161",   "'s",
      "...",        "\r\n",   "\u3042\u3099", "<|im_end|>", "<|im_end", "\u0915\u094d",
      "\U0001f600", "\u00a0", "\u4e2d\u6587", "\uff0c",     "x"};
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < bytes) {
    const std::string& part = parts[random() % parts.size()];
    const std::size_t repeats = random() % 200 == 0 ? random() % 20000 : 1;
    for (std::size_t i = 0; i < repeats; ++i) text += part;
  }
  return text;
}

TEST(Tokenizer, WindowsDoNotShow) {
  for (const SplitPattern pattern : {SplitPattern::qwen2, SplitPattern::qwen35}) {
    TokenizerDefinition definition = clef_tiny_definition();
    definition.pattern = pattern;
    const Tokenizer tokenizer = make(std::move(definition));
    for (unsigned seed = 0; seed < 6; ++seed) {
      const std::string text = long_text(400000, seed);
      Ids expected;
      for (const std::string& word : tokenizer.split(text)) {  // all at once, without windows
        tokenizer.encode(word, {.match_added_tokens = false}, expected);
      }
      EXPECT_TRUE(tokenizer.encode(text, {.match_added_tokens = false}) == expected) << seed;

      expected.clear();
      for (std::size_t at = 0; at < text.size();) {  // the same, cut by hand at the one added token
        const std::size_t token = std::min(text.find("<|im_end|>", at), text.size());
        for (const std::string& word : tokenizer.split(text.substr(at, token - at))) {
          tokenizer.encode(word, {.match_added_tokens = false}, expected);
        }
        if (token < text.size()) expected.push_back(4002);
        at = token + 10;
      }
      EXPECT_TRUE(tokenizer.encode(text) == expected) << seed;
    }
  }
}

TEST(Tokenizer, StoppingEarlyGivesThePrefix) {
  const Tokenizer tokenizer = make(clef_tiny_definition());
  for (const std::string& text : {long_text(150000, 9), std::string(70000, 'a') + " b", std::string("a b c")}) {
    for (const bool match_added_tokens : {true, false}) {
      const Ids all = tokenizer.encode(text, {.match_added_tokens = match_added_tokens});
      for (const std::size_t limit : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{1000}, all.size() - 1,
                                      all.size(), all.size() + 1}) {
        Ids ids = {-7};  // what is there already does not count
        tokenizer.encode(text, {.match_added_tokens = match_added_tokens, .max_tokens = limit}, ids);
        const std::size_t expected = std::min(limit, all.size());
        ASSERT_EQ(ids.size(), 1 + expected);
        EXPECT_EQ(ids.front(), -7);
        EXPECT_TRUE(std::equal(ids.begin() + 1, ids.end(), all.begin()));
      }
    }
  }
}

// A thousand early stops on 100 MB would take minutes if each read all of the text.
TEST(Tokenizer, StoppingEarlyLeavesTheRestUnread) {
  const Tokenizer tokenizer = make(clef_tiny_definition());
  const std::string piece = "The re\u0301ply was rude, and 42 <late>. \u4e2d\u6587\uff0c\u6587\n";
  std::string text;
  while (text.size() < 100000000) text += piece;
  const Ids expected = tokenizer.encode(std::string_view(text).substr(0, 100000), {.max_tokens = 16384});
  ASSERT_EQ(expected.size(), 16384U);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(tokenizer.encode(text, {.max_tokens = 16384}) == expected);
}

TEST(Tokenizer, ThreadsMayShareOne) {
  const Tokenizer tokenizer = make(clef_tiny_definition());
  const std::string text = long_text(50000, 4);
  const Ids expected = make(clef_tiny_definition()).encode(text);
  std::vector<Ids> got(4);
  std::vector<std::thread> threads;
  for (Ids& ids : got) threads.emplace_back([&] { ids = tokenizer.encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : got) EXPECT_TRUE(ids == expected);
}

TEST(Tokenizer, ManyAddedTokensAreFoundAsFast) {
  std::vector<std::string> added;
  for (int i = 0; i < 65536; ++i) added.push_back(fmt::format("<{}>", i));
  const Tokenizer tokenizer = make(byte_tokenizer({}, added));
  std::string text;
  for (int i = 0; i < 65536; ++i) text += added[static_cast<std::size_t>(i)];
  const Ids ids = tokenizer.encode(text);
  ASSERT_EQ(ids.size(), 65536U);
  EXPECT_EQ(ids.back(), 256 + 65535);
  EXPECT_EQ(tokenizer.encode(std::string(300000, '<')).size(), 300000U);
}

TEST(Tokenizer, TextThatIsNoUtf8IsSafe) {
  const Tokenizer tokenizer = make(clef_tiny_definition());
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 60, '\0');
    for (char& c : text) c = static_cast<char>(random() % 4 == 0 ? 'e' : random() % 256);
    (void)tokenizer.encode(text);
    (void)tokenizer.split(text);
  }
}

}  // namespace
}  // namespace clef
