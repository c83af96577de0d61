// Small tokenizers for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "support/golden.h"
#include "text/tokenizer.h"
#include "text/tokenizer_bytes.h"

namespace clef::test {

// Ids 0 to 255 are the bytes, then one token for each merge, then the added tokens. Texts are plain, not byte symbols.
inline TokenizerDefinition byte_tokenizer(const std::vector<std::pair<std::string, std::string>>& merges = {},
                                          const std::vector<std::string>& added_tokens = {}) {
  TokenizerDefinition definition;
  for (int b = 0; b < 256; ++b) definition.tokens.push_back(byte_symbols(std::string(1, static_cast<char>(b))));
  for (const auto& [left, right] : merges) {
    definition.tokens.push_back(byte_symbols(left + right));
    definition.merges.emplace_back(byte_symbols(left), byte_symbols(right));
  }
  for (const std::string& content : added_tokens) {
    definition.added_tokens.push_back({static_cast<std::int32_t>(definition.tokens.size()), content, true});
    definition.tokens.push_back(content);
  }
  return definition;
}

inline Tokenizer make(TokenizerDefinition definition) {
  auto tokenizer = Tokenizer::create(std::move(definition));
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
  return std::move(tokenizer).value();
}

inline TokenizerDefinition clef_tiny_definition() {
  auto definition = parse_tokenizer(read_file(golden_path("clef-tiny/tokenizer.json")),
                                    read_file(golden_path("clef-tiny/tokenizer_config.json")));
  if (!definition) throw std::runtime_error(definition.error().message);
  return std::move(definition).value();
}

// The bytes that `ids` stand for.
inline std::string decode(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string& token = tokenizer.definition().tokens[static_cast<std::size_t>(id)];
    if (tokenizer.added_token_id(token) == id) {
      text += token;
    } else if (!append_symbol_bytes(text, token)) {
      throw std::runtime_error("no byte symbols: " + token);
    }
  }
  return text;
}

}  // namespace clef::test
