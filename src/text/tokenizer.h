// Byte-level BPE as the Qwen tokenizers do it: text -> added tokens cut out -> NFC -> split -> bytes -> merges -> ids.
// Source: Hugging Face tokenizers (Rust) run on the model's tokenizer.json; pattern by class, see SplitPattern.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/json.h"

namespace clef {

// Which regular expression cuts text into words. They differ in whether combining marks belong to words.
// A snapshot whose tokenizer_class is Qwen2Tokenizer is split by `qwen2` whatever its tokenizer.json says, since that
// class rebuilds the splitter; other classes use the pattern in the file.
enum class SplitPattern : std::uint8_t { qwen2, qwen35 };

struct AddedToken {
  std::int32_t id;
  std::string content;
  bool special;
  bool operator==(const AddedToken&) const = default;
};

// Everything that defines a tokenizer, whichever file it came from.
struct TokenizerDefinition {
  // By id: byte-symbol text (see tokenizer_bytes.h), added tokens as their content, "" for an unused id.
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;  // by rank, byte-symbol text
  std::vector<AddedToken> added_tokens;                     // by id
  SplitPattern pattern = SplitPattern::qwen2;
  bool operator==(const TokenizerDefinition&) const = default;
};

// Reads a snapshot's tokenizer.json and tokenizer_config.json. Errc::bad_model for anything but byte-level BPE with NFC
// and one of the two patterns; the message names the member. An empty tokenizer_config_json stands for no such file.
Result<TokenizerDefinition> parse_tokenizer(std::string_view tokenizer_json, std::string_view tokenizer_config_json);

class Tokenizer {
 public:
  // Errc::bad_model when a merge or a byte symbol has no id, when two tokens have the same text, or when there are over
  // 2^24 tokens.
  static Result<Tokenizer> create(TokenizerDefinition definition);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  struct Options {
    bool match_added_tokens = true;  // false ("strict"): control strings in the text stay text
    std::size_t max_tokens = std::numeric_limits<std::size_t>::max();  // stop early once this many ids are out
  };
  // Ids of `text` (valid UTF-8), appended to `ids`. Linear in the text, and in the part of it that `max_tokens` ids
  // need: text is taken in windows of some ten thousand bytes that end where no word can be cut. Threads may share a
  // tokenizer.
  void encode(std::string_view text, const Options& options, std::vector<std::int32_t>& ids) const;
  std::vector<std::int32_t> encode(std::string_view text, const Options& options) const;
  std::vector<std::int32_t> encode(std::string_view text) const { return encode(text, Options{}); }

  // The words the split pattern makes of one stretch without added tokens, after NFC. For tests and tools.
  std::vector<std::string> split(std::string_view text) const;

  // Id of an added token by its content, -1 when there is none.
  std::int32_t added_token_id(std::string_view content) const;
  const TokenizerDefinition& definition() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace clef
