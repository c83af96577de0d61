// The first byte says what the rest is: a tokenizer.json (and, after a zero byte, a tokenizer_config.json), a text to
// encode with clef-tiny's vocabulary, or a vocabulary of bytes and merges with a text to encode.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/mapped_file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_bpe.h"
#include "text/tokenizer_bytes.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace clef {
namespace {

using Ids = std::vector<std::int32_t>;

std::string only_valid_utf8(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t length = utf8_sequence_length(bytes, at);
    text += bytes.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return text;
}

std::string nfc(std::string_view text) {
  std::string out;
  append_nfc(out, text);
  return out;
}

std::string decode(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string& token = tokenizer.definition().tokens.at(static_cast<std::size_t>(id));
    if (tokenizer.added_token_id(token) == id) {
      text += token;
    } else {
      CHECK(append_symbol_bytes(text, token), "token {}", id);
    }
  }
  return text;
}

// What the ids of a text stand for: its normal form, or with added tokens that of each stretch between them.
std::string expected_text(const Tokenizer& tokenizer, std::string_view text, bool match_added_tokens) {
  std::string expected, starts;
  for (const AddedToken& token : tokenizer.definition().added_tokens) starts += token.content.front();
  std::size_t copied = 0;
  for (std::size_t at = 0; match_added_tokens && at < text.size(); ++at) {
    at = std::min(text.find_first_of(starts, at), text.size());
    std::size_t longest = 0;
    for (const AddedToken& token : tokenizer.definition().added_tokens) {
      if (text.compare(at, token.content.size(), token.content) == 0) {
        longest = std::max(longest, token.content.size());
      }
    }
    if (longest == 0) continue;
    expected += nfc(text.substr(copied, at - copied));
    expected += text.substr(at, longest);
    copied = at + longest;
    at = copied - 1;
  }
  return expected + nfc(text.substr(copied));
}

void check_text(const Tokenizer& tokenizer, const std::string& text, std::size_t limit) {
  const std::string normal = nfc(text);
  CHECK(nfc(normal) == normal);
  CHECK(!is_nfc(text) || text == normal);
  std::string joined;
  Ids of_words;
  for (const std::string& word : tokenizer.split(text)) {
    CHECK(!word.empty());
    joined += word;
    tokenizer.encode(word, {.match_added_tokens = false}, of_words);
  }
  CHECK(joined == normal);
  for (const bool match_added_tokens : {false, true}) {
    const Ids ids = tokenizer.encode(text, {.match_added_tokens = match_added_tokens});
    CHECK(decode(tokenizer, ids) == expected_text(tokenizer, text, match_added_tokens));
    CHECK(match_added_tokens || ids == of_words);
    const Ids prefix = tokenizer.encode(text, {.match_added_tokens = match_added_tokens, .max_tokens = limit});
    CHECK(prefix.size() == std::min(limit, ids.size()) && std::equal(prefix.begin(), prefix.end(), ids.begin()));
  }
}

void fuzz_file(std::string_view data) {
  const std::size_t zero = std::min(data.find('\0'), data.size());
  const std::string_view config = zero < data.size() ? data.substr(zero + 1) : std::string_view();
  auto definition = parse_tokenizer(data.substr(0, zero), config);
  if (!definition) {
    CHECK(definition.error().message.starts_with("tokenizer: "), "{}", definition.error().message);
    return;
  }
  const auto tokenizer = Tokenizer::create(std::move(definition).value());
  if (!tokenizer) {
    CHECK(tokenizer.error().message.starts_with("tokenizer: "), "{}", tokenizer.error().message);
    return;
  }
  check_text(*tokenizer, "The re\u0301ply <e> was  rude, 42 times\n", 5);
}

Tokenizer clef_tiny(SplitPattern pattern) {
  const auto read = [](const char* name) {
    const MappedFile file = MappedFile::open(std::string(CLEF_GOLDEN_DIR "/clef-tiny/") + name).value();
    return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  };
  auto definition = parse_tokenizer(read("tokenizer.json"), read("tokenizer_config.json"));
  CHECK(definition.has_value(), "{}", definition.error().message);
  definition->pattern = pattern;
  return Tokenizer::create(std::move(definition).value()).value();
}

void fuzz_text(std::string_view data, unsigned kind) {
  static const std::array<Tokenizer, 2> tokenizers = {clef_tiny(SplitPattern::qwen2), clef_tiny(SplitPattern::qwen35)};
  const Tokenizer& tokenizer = tokenizers[kind & 1];
  (void)tokenizer.encode(data);  // no UTF-8: no meaning, no harm
  std::string text = only_valid_utf8(data);
  if (text.empty()) return;
  if ((kind & 62) == 62) {  // repeated until it takes several windows
    const std::string once = text;
    while (text.size() < 40000) text += once;
  }
  check_text(tokenizer, text, static_cast<unsigned char>(data.front()));
}

Ids merge_by_definition(const TokenizerDefinition& definition, std::string_view word) {
  std::map<std::string, std::int32_t> ids;
  for (std::size_t i = 0; i < definition.tokens.size(); ++i) ids[definition.tokens[i]] = static_cast<std::int32_t>(i);
  std::map<std::pair<std::string, std::string>, std::size_t> ranks;
  for (std::size_t i = 0; i < definition.merges.size(); ++i) ranks[definition.merges[i]] = i;
  std::vector<std::string> parts;
  for (const char byte : word) parts.push_back(byte_symbols({&byte, 1}));
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

// data: a count of merges, two bytes a merge (each a byte's token or, from 0x80 on, an earlier merge's), then letters.
void fuzz_merges(std::string_view data, unsigned kind) {
  TokenizerDefinition definition;
  for (int b = 0; b < 256; ++b) definition.tokens.push_back(byte_symbols(std::string(1, static_cast<char>(b))));
  const auto take = [&] {
    const auto byte = data.empty() ? 0U : static_cast<unsigned char>(data.front());
    if (!data.empty()) data.remove_prefix(1);
    return byte;
  };
  const auto part = [&](unsigned byte) {
    const std::size_t num_merges = definition.merges.size();
    const std::size_t id = byte < 0x80 || num_merges == 0 ? 'a' + byte % 3 : 256 + byte % num_merges;
    return definition.tokens.at(std::min(id, definition.tokens.size() - 1));
  };
  for (unsigned count = take() % 32; count > 0 && data.size() > 1; --count) {
    const std::string left = part(take()), right = part(take());
    if (left.size() + right.size() > 64) continue;
    definition.merges.emplace_back(left, right);
    const auto known = std::find(definition.tokens.begin(), definition.tokens.end(), left + right);
    if (known == definition.tokens.end()) definition.tokens.push_back(left + right);
  }
  std::string word;
  for (const char byte : data.substr(0, 60)) word += static_cast<char>('a' + static_cast<unsigned char>(byte) % 3);
  if (word.empty()) return;
  if ((kind & 1) != 0) word += word + word;  // past where the heap takes over
  const Ids expected = merge_by_definition(definition, word);
  for (const std::size_t chunk_bytes : {std::size_t{1}, word.size()}) {
    const auto encoder = BytePairEncoder::create(definition, chunk_bytes);
    CHECK(encoder.has_value(), "{}", encoder.error().message);
    BytePairEncoder::Scratch scratch;
    Ids ids;
    encoder->encode(word, word.size(), scratch, ids);
    CHECK(ids == expected);
    encoder->encode(word, 2 * word.size(), scratch, ids);  // what the first time found out serves the second
    CHECK(std::equal(ids.begin() + static_cast<std::ptrdiff_t>(expected.size()), ids.end(), expected.begin(),
                     expected.end()));
  }
}

}  // namespace
}  // namespace clef

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      clef::fuzz_file(rest);
      break;
    case 1:
      clef::fuzz_merges(rest, data[0] / 4);
      break;
    default:
      clef::fuzz_text(rest, data[0] / 4);
  }
  return 0;
}
