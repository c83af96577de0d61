#include "text/tokenizer_bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "text/tokenizer_fixture.h"

namespace clef {
namespace {

using Ids = std::vector<std::int32_t>;

// The definition, word for word and slow.
Ids merge_slowly(const TokenizerDefinition& definition, const std::string& word) {
  std::map<std::string, std::int32_t> ids;
  for (std::size_t i = 0; i < definition.tokens.size(); ++i) ids.emplace(definition.tokens[i], i);
  std::map<std::pair<std::string, std::string>, std::size_t> ranks;
  for (std::size_t i = 0; i < definition.merges.size(); ++i) ranks.emplace(definition.merges[i], i);
  std::vector<std::string> parts;
  for (const char byte : word) parts.push_back(byte_symbols(std::string(1, byte)));
  while (true) {
    std::size_t best = parts.size(), best_rank = definition.merges.size();
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto rank = ranks.find({parts[i], parts[i + 1]});
      if (rank != ranks.end() && rank->second < best_rank) best = i, best_rank = rank->second;
    }
    if (best == parts.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  Ids result;
  for (const std::string& part : parts) result.push_back(ids.at(part));
  return result;
}

Ids encode(const BytePairEncoder& encoder, const std::string& word, std::size_t enough = SIZE_MAX) {
  BytePairEncoder::Scratch scratch;
  Ids ids;
  encoder.encode(word, enough, scratch, ids);
  return ids;
}

std::string random_word(std::mt19937& random, std::string_view letters, std::size_t length) {
  std::string word;
  while (word.size() < length) word += letters[random() % letters.size()];
  return word;
}

// Merges of a, b and c at random, so that ranks and lengths go together in no way a trained vocabulary would have.
TokenizerDefinition random_vocabulary(std::mt19937& random) {
  std::vector<std::string> parts = {"a", "b", "c"};
  std::vector<std::pair<std::string, std::string>> merges;
  const std::size_t count = 3 + random() % 20;
  while (merges.size() < count) {
    const std::string left = parts[random() % parts.size()], right = parts[random() % parts.size()];
    if (std::find(parts.begin(), parts.end(), left + right) != parts.end()) continue;
    parts.push_back(left + right);
    merges.emplace_back(left, right);
  }
  return test::byte_tokenizer(merges);
}

// Lengths around where one way of merging takes over from the other.
TEST(BytePairEncoder, WordsOfAnyLengthAgreeWithTheDefinition) {
  const TokenizerDefinition definition = test::clef_tiny_definition();
  const auto encoder = BytePairEncoder::create(definition);
  ASSERT_TRUE(encoder);
  std::mt19937 random(11);
  for (const std::size_t length : {1U, 2U, 3U, 7U, 8U, 9U, 14U, 15U, 16U, 17U, 31U, 32U, 33U, 34U, 100U, 300U}) {
    for (int i = 0; i < 12; ++i) {
      const std::string word = random_word(random, i % 3 == 0 ? "ae" : "etaoinshrdlucmfwyp", length);
      ASSERT_EQ(encode(*encoder, word), merge_slowly(definition, word)) << word;
    }
  }
}

TEST(BytePairEncoder, AnyVocabularyAgreesWithTheDefinition) {
  std::mt19937 random(12);
  for (int i = 0; i < 300; ++i) {
    const TokenizerDefinition definition = random_vocabulary(random);
    const auto encoder = BytePairEncoder::create(definition);
    ASSERT_TRUE(encoder);
    for (const std::size_t length : {5U, 15U, 40U, 140U}) {
      const std::string word = random_word(random, "abc", length);
      ASSERT_EQ(encode(*encoder, word), merge_slowly(definition, word)) << word;
    }
  }
}

// Chunks as short as a few tokens, so that there are many borders to get wrong.
TEST(BytePairEncoder, ChunksDoNotShow) {
  std::mt19937 random(13);
  for (int i = 0; i < 3000; ++i) {
    const TokenizerDefinition definition = random_vocabulary(random);
    const auto whole = BytePairEncoder::create(definition), by_chunks = BytePairEncoder::create(definition, 1);
    ASSERT_TRUE(whole && by_chunks);
    for (const std::string_view letters : {"abc", "ab", "a", "aaaaaaaaaaaab"}) {
      const std::string word = random_word(random, letters, 1000);
      const Ids expected = encode(*whole, word);
      ASSERT_EQ(encode(*by_chunks, word), expected) << word;
      const Ids some = encode(*by_chunks, word, 10);
      ASSERT_GE(some.size(), std::min<std::size_t>(10, expected.size()));
      ASSERT_TRUE(std::equal(some.begin(), some.end(), expected.begin())) << word;
    }
  }
}

}  // namespace
}  // namespace clef
