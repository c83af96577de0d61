#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "text/tokenizer_added.h"
#include "text/tokenizer_bpe.h"
#include "text/tokenizer_error.h"
#include "text/tokenizer_split.h"
#include "text/unicode.h"

namespace clef {
namespace {

constexpr std::size_t kMaxTokens = std::size_t{1} << 24;
constexpr std::size_t kMaxAddedTokens = std::size_t{1} << 16;

// Text is taken in windows of about this size, so that an early stop leaves the rest of a long text untouched.
constexpr std::size_t kWindowBytes = 32 * 1024;

Status check(const TokenizerDefinition& definition) {
  const auto check_count = [](std::string_view name, std::size_t count, std::size_t limit) -> Status {
    if (count <= limit) return {};
    return tokenizer_error(fmt::format("{}: expected at most {}, got {}", name, limit, count));
  };
  TRY(check_count("tokens", definition.tokens.size(), kMaxTokens));
  TRY(check_count("merges", definition.merges.size(), kMaxTokens));
  TRY(check_count("added_tokens", definition.added_tokens.size(), kMaxAddedTokens));
  std::unordered_set<std::int32_t> ids;
  std::unordered_set<std::string_view> contents;
  for (std::size_t i = 0; i < definition.added_tokens.size(); ++i) {
    const AddedToken& token = definition.added_tokens[i];
    if (token.content.empty()) return tokenizer_error(fmt::format("added_tokens[{}]: expected text, got none", i));
    if (token.id < 0 || static_cast<std::size_t>(token.id) >= definition.tokens.size()) {
      return tokenizer_error(
          fmt::format("added_tokens[{}]: expected an id below {}, got {}", i, definition.tokens.size(), token.id));
    }
    if (definition.tokens[static_cast<std::size_t>(token.id)] != token.content) {
      return tokenizer_error(
          fmt::format("added_tokens[{}]: expected the text of tokens[{}], got {}", i, token.id, quoted(token.content)));
    }
    if (!ids.insert(token.id).second)
      return tokenizer_error(fmt::format("added_tokens[{}]: id {} comes twice", i, token.id));
    if (!contents.insert(token.content).second) {
      return tokenizer_error(fmt::format("added_tokens[{}]: {} comes twice", i, quoted(token.content)));
    }
  }
  return {};
}

}  // namespace

struct Tokenizer::State {
  TokenizerDefinition definition;
  BytePairEncoder encoder;
  AddedTokenMatcher added_tokens;
  Splitter splitter;
  std::unordered_map<std::string_view, std::int32_t> added_ids;  // keys point into `definition`

  State(TokenizerDefinition given, BytePairEncoder made)
      : definition(std::move(given)),
        encoder(std::move(made)),
        added_tokens(definition.added_tokens),
        splitter(definition.pattern) {
    for (const AddedToken& token : definition.added_tokens) added_ids.emplace(token.content, token.id);
  }
};

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::create(TokenizerDefinition definition) {
  TRY(check(definition));
  BytePairEncoder encoder = TRY(BytePairEncoder::create(definition));
  return Tokenizer(std::make_unique<State>(std::move(definition), std::move(encoder)));
}

void Tokenizer::encode(std::string_view text, const Options& options, std::vector<std::int32_t>& ids) const {
  const std::size_t enough =
      options.max_tokens < ids.max_size() - ids.size() ? ids.size() + options.max_tokens : ids.max_size();
  BytePairEncoder::Scratch scratch;
  std::string normalized;

  // A stretch is a segment between added tokens, or a part of one that is encoded the same alone.
  const auto encode_stretch = [&](std::string_view stretch) {
    if (!is_nfc(stretch)) {
      normalized.clear();
      append_nfc(normalized, stretch);
      stretch = normalized;
    }
    for (std::size_t at = 0; at < stretch.size() && ids.size() < enough;) {
      const std::size_t end = state_->splitter.word_end(stretch, at);
      state_->encoder.encode(stretch.substr(at, end - at), enough, scratch, ids);
      at = end;
    }
  };

  std::size_t at = 0;        // what is encoded
  std::size_t searched = 0;  // no added token starts in [at, searched), nor can the text be cut there
  std::size_t window = kWindowBytes;
  while (at < text.size() && ids.size() < enough) {
    const std::size_t limit = text.size() - at > window ? at + window : text.size();
    if (options.match_added_tokens) {
      if (const auto match = state_->added_tokens.find(text, searched, limit); match.id >= 0) {
        encode_stretch(text.substr(at, match.begin - at));
        if (ids.size() < enough) ids.push_back(match.id);
        at = searched = match.end;
        window = kWindowBytes;
        continue;
      }
    }
    const std::size_t cut = last_safe_cut(text, searched, limit);
    if (cut == searched) {  // one long word so far
      searched = limit;
      window *= 2;
      continue;
    }
    encode_stretch(text.substr(at, cut - at));
    at = searched = cut;
    window = kWindowBytes;
  }
  if (ids.size() > enough) ids.resize(enough);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, const Options& options) const {
  std::vector<std::int32_t> ids;
  encode(text, options, ids);
  return ids;
}

std::vector<std::string> Tokenizer::split(std::string_view text) const {
  std::string normalized;
  append_nfc(normalized, text);
  std::vector<std::string> words;
  for (std::size_t at = 0; at < normalized.size();) {
    const std::size_t end = state_->splitter.word_end(normalized, at);
    words.push_back(normalized.substr(at, end - at));
    at = end;
  }
  return words;
}

std::int32_t Tokenizer::added_token_id(std::string_view content) const {
  const auto found = state_->added_ids.find(content);
  return found == state_->added_ids.end() ? -1 : found->second;
}

const TokenizerDefinition& Tokenizer::definition() const { return state_->definition; }

}  // namespace clef
