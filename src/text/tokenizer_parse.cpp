// tokenizer.json and tokenizer_config.json of a snapshot -> TokenizerDefinition.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "text/tokenizer.h"
#include "text/tokenizer_error.h"
#include "text/tokenizer_split.h"

namespace clef {
namespace {

constexpr std::int32_t kMaxId = (1 << 24) - 1;
constexpr std::size_t kMaxAddedTokens = std::size_t{1} << 16;
constexpr std::size_t kMaxUnusedIds = std::size_t{1} << 16;  // holes between ids; each costs an empty string

// "PATH: expected EXPECTED, got ..." for a member that is absent (null pointer) or not as it should be.
Error unexpected_value(std::string_view path, std::string_view expected, const Json* got) {
  std::string text = "nothing";
  if (got != nullptr && got->if_string() != nullptr) {
    text = quoted(*got->if_string());
  } else if (got != nullptr && got->if_array() != nullptr) {
    text = "a list";
  } else if (got != nullptr && got->if_object() != nullptr) {
    text = "an object";
  } else if (got != nullptr) {
    text = utf8_prefix(to_compact_json(*got), 80);  // an integer may have thousands of digits
  }
  return tokenizer_error(fmt::format("{}: expected {}, got {}", path, expected, text));
}

Result<const Json::Object*> object_at(const Json* value, std::string_view path) {
  if (value == nullptr || value->if_object() == nullptr) return unexpected_value(path, "an object", value);
  return value->if_object();
}

Result<const Json::Array*> array_at(const Json* value, std::string_view path) {
  if (value == nullptr || value->if_array() == nullptr) return unexpected_value(path, "a list", value);
  return value->if_array();
}

Result<const std::string*> string_at(const Json* value, std::string_view path) {
  if (value == nullptr || value->if_string() == nullptr) return unexpected_value(path, "a string", value);
  return value->if_string();
}

std::optional<std::int32_t> as_id(std::string_view digits) {
  std::int32_t id = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  if (error != std::errc() || end != digits.data() + digits.size() || id < 0 || id > kMaxId) return std::nullopt;
  return id;
}

Result<std::int32_t> id_at(const Json* value, std::string_view path) {
  if (value != nullptr && value->if_integer() != nullptr) {
    if (const auto id = as_id(value->if_integer()->digits)) return *id;
  }
  return unexpected_value(path, fmt::format("an id up to {}", kMaxId), value);
}

// A member that must be exactly the string `expected`.
Status expect_string(const Json& object, std::string_view object_path, std::string_view key,
                     std::string_view expected) {
  const Json* value = object.find(key);
  if (value != nullptr && value->if_string() != nullptr && *value->if_string() == expected) return {};
  return unexpected_value(fmt::format("{}.{}", object_path, key), quoted(expected), value);
}

// A flag that must be off: false or absent.
Status expect_off(const Json& object, std::string_view object_path, std::string_view key) {
  const Json* value = object.find(key);
  if (value == nullptr || *value == Json(false)) return {};
  return unexpected_value(fmt::format("{}.{}", object_path, key), "false", value);
}

// An option that must not be set: null, "" or absent.
Status expect_unset(const Json& object, std::string_view object_path, std::string_view key) {
  const Json* value = object.find(key);
  if (value == nullptr || value->is_null() || *value == Json("")) return {};
  return unexpected_value(fmt::format("{}.{}", object_path, key), "null", value);
}

// Split by one of the two patterns, then bytes to their symbols.
Result<SplitPattern> parse_pre_tokenizer(const Json* value) {
  TRY(object_at(value, "pre_tokenizer"));
  TRY(expect_string(*value, "pre_tokenizer", "type", "Sequence"));
  const Json::Array& steps = *TRY(array_at(value->find("pretokenizers"), "pre_tokenizer.pretokenizers"));
  if (steps.size() != 2) {
    return tokenizer_error(
        fmt::format("pre_tokenizer.pretokenizers: expected Split and ByteLevel, got {} entries", steps.size()));
  }
  const std::string_view split_path = "pre_tokenizer.pretokenizers[0]", bytes_path = "pre_tokenizer.pretokenizers[1]";
  TRY(object_at(&steps[0], split_path));
  TRY(expect_string(steps[0], split_path, "type", "Split"));
  TRY(expect_string(steps[0], split_path, "behavior", "Isolated"));
  TRY(expect_off(steps[0], split_path, "invert"));
  TRY(object_at(&steps[1], bytes_path));
  TRY(expect_string(steps[1], bytes_path, "type", "ByteLevel"));
  TRY(expect_off(steps[1], bytes_path, "add_prefix_space"));
  TRY(expect_off(steps[1], bytes_path, "use_regex"));
  const std::string pattern_path = fmt::format("{}.pattern", split_path);
  TRY(object_at(steps[0].find("pattern"), pattern_path));
  const Json* regex = steps[0].find("pattern")->find("Regex");
  const std::string& text = *TRY(string_at(regex, pattern_path + ".Regex"));
  for (const SplitPattern pattern : {SplitPattern::qwen2, SplitPattern::qwen35}) {
    if (text == regex_of(pattern)) return pattern;
  }
  return unexpected_value(pattern_path + ".Regex", "the Qwen2 or the Qwen3.5 pattern", regex);
}

// Vocabulary and added tokens as they come in, by id.
class TokenTable {
 public:
  // `path` names the member for messages. The same text under the same id may come again.
  Status add(std::int32_t id, const std::string& text, std::string_view path) {
    const auto [known, is_new] = texts_.emplace(id, &text);
    if (!is_new && *known->second != text) {
      return tokenizer_error(
          fmt::format("{}: id {} is taken by {}, got {}", path, id, quoted(*known->second), quoted(text)));
    }
    max_id_ = std::max(max_id_, id);
    return {};
  }
  void reserve(std::size_t count) { texts_.reserve(count); }
  bool contains(std::int32_t id) const { return texts_.contains(id); }

  Result<std::vector<std::string>> tokens() const {
    const auto count = static_cast<std::size_t>(max_id_ + 1);
    if (count > texts_.size() + kMaxUnusedIds) {
      return tokenizer_error(
          fmt::format("model.vocab: expected ids without large gaps, got {} for {} tokens", max_id_, texts_.size()));
    }
    std::vector<std::string> tokens(count);
    for (const auto& [id, text] : texts_) tokens[static_cast<std::size_t>(id)] = *text;
    return tokens;
  }

 private:
  std::unordered_map<std::int32_t, const std::string*> texts_;  // point into the parsed files
  std::int32_t max_id_ = -1;
};

Status parse_vocabulary(const Json& model, TokenTable& table) {
  const Json::Object& vocab = *TRY(object_at(model.find("vocab"), "model.vocab"));
  table.reserve(vocab.size());
  for (const auto& [text, value] : vocab) {
    const auto* integer = value.if_integer();
    const auto id = integer != nullptr ? as_id(integer->digits) : std::nullopt;
    if (!id)
      return unexpected_value(fmt::format("model.vocab[{}]", quoted(text)), fmt::format("an id up to {}", kMaxId),
                              &value);
    TRY(table.add(*id, text, "model.vocab"));
  }
  return {};
}

// Either "left right" or ["left", "right"].
Result<std::vector<std::pair<std::string, std::string>>> parse_merges(const Json& model) {
  const Json::Array& list = *TRY(array_at(model.find("merges"), "model.merges"));
  std::vector<std::pair<std::string, std::string>> merges;
  merges.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& merge = list[i];
    if (const std::string* text = merge.if_string()) {
      const std::size_t space = text->find(' ');
      if (space != std::string::npos && text->find(' ', space + 1) == std::string::npos) {
        merges.emplace_back(text->substr(0, space), text->substr(space + 1));
        continue;
      }
    } else if (const Json::Array* pair = merge.if_array();
               pair != nullptr && pair->size() == 2 && (*pair)[0].if_string() && (*pair)[1].if_string()) {
      merges.emplace_back(*(*pair)[0].if_string(), *(*pair)[1].if_string());
      continue;
    }
    return unexpected_value(fmt::format("model.merges[{}]", i), "\"left right\" or [\"left\", \"right\"]", &merge);
  }
  return merges;
}

// The flags that change how an added token is found; the models' tokens have none of them set.
Result<AddedToken> parse_added_token(std::int32_t id, const Json& token, std::string_view path) {
  const std::string& content = *TRY(string_at(token.find("content"), fmt::format("{}.content", path)));
  if (content.empty()) return unexpected_value(fmt::format("{}.content", path), "text", token.find("content"));
  for (const std::string_view flag : {"single_word", "lstrip", "rstrip", "normalized"}) {
    TRY(expect_off(token, path, flag));
  }
  const Json* special = token.find("special");
  return AddedToken{.id = id, .content = content, .special = special != nullptr && *special == Json(true)};
}

// added_tokens of tokenizer.json: [{"id": .., "content": ..}, ..].
Status parse_added_tokens(const Json* list, TokenTable& table, std::vector<AddedToken>& added) {
  if (list == nullptr || list->is_null()) return {};
  const Json::Array& entries = *TRY(array_at(list, "added_tokens"));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string path = fmt::format("added_tokens[{}]", i);
    TRY(object_at(&entries[i], path));
    const std::int32_t id = TRY(id_at(entries[i].find("id"), path + ".id"));
    added.push_back(TRY(parse_added_token(id, entries[i], path)));
    TRY(table.add(id, *entries[i].find("content")->if_string(), path));
  }
  return {};
}

// added_tokens_decoder of tokenizer_config.json: {"id": {"content": ..}, ..}. Some releases list tokens only there.
Status parse_added_tokens_decoder(const Json* decoder, TokenTable& table, std::vector<AddedToken>& added) {
  if (decoder == nullptr || decoder->is_null()) return {};
  for (const auto& [key, token] : *TRY(object_at(decoder, "added_tokens_decoder"))) {
    const std::string path = fmt::format("added_tokens_decoder[{}]", quoted(key));
    const auto id = as_id(key);
    if (!id) return tokenizer_error(fmt::format("{}: expected an id up to {} as the key", path, kMaxId));
    TRY(object_at(&token, path));
    AddedToken entry = TRY(parse_added_token(*id, token, path));
    TRY(table.add(*id, *token.find("content")->if_string(), path));
    added.push_back(std::move(entry));
  }
  return {};
}

// One entry an id, by id; tokenizer.json's entry stands where both files have one.
Status sort_added_tokens(std::vector<AddedToken>& added) {
  std::stable_sort(added.begin(), added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  added.erase(std::unique(added.begin(), added.end(), [](const auto& a, const auto& b) { return a.id == b.id; }),
              added.end());
  if (added.size() <= kMaxAddedTokens) return {};
  return tokenizer_error(fmt::format("added_tokens: expected at most {}, got {}", kMaxAddedTokens, added.size()));
}

Result<Json> parse_file(std::string_view text, std::string_view name) {
  auto json = parse_json(text);
  if (!json) return tokenizer_error(fmt::format("{}: {}", name, json.error().message));
  if (json->if_object() == nullptr) return unexpected_value(name, "an object", &*json);
  return json;
}

}  // namespace

Result<TokenizerDefinition> parse_tokenizer(std::string_view tokenizer_json, std::string_view tokenizer_config_json) {
  const Json file = TRY(parse_file(tokenizer_json, "tokenizer.json"));
  const Json config =
      tokenizer_config_json.empty() ? Json() : TRY(parse_file(tokenizer_config_json, "tokenizer_config.json"));

  TokenizerDefinition definition;
  TRY(object_at(file.find("normalizer"), "normalizer"));
  TRY(expect_string(*file.find("normalizer"), "normalizer", "type", "NFC"));
  definition.pattern = TRY(parse_pre_tokenizer(file.find("pre_tokenizer")));
  const Json* tokenizer_class = config.find("tokenizer_class");
  // The class rebuilds the splitter, whatever the file says.
  if (tokenizer_class != nullptr && *tokenizer_class == Json("Qwen2Tokenizer"))
    definition.pattern = SplitPattern::qwen2;

  const Json* model = file.find("model");
  TRY(object_at(model, "model"));
  TRY(expect_string(*model, "model", "type", "BPE"));
  for (const std::string_view option : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    TRY(expect_unset(*model, "model", option));
  }
  for (const std::string_view flag : {"fuse_unk", "byte_fallback", "ignore_merges"}) {
    TRY(expect_off(*model, "model", flag));
  }
  TokenTable table;
  TRY(parse_vocabulary(*model, table));
  definition.merges = TRY(parse_merges(*model));
  TRY(parse_added_tokens(file.find("added_tokens"), table, definition.added_tokens));
  TRY(parse_added_tokens_decoder(config.find("added_tokens_decoder"), table, definition.added_tokens));
  TRY(sort_added_tokens(definition.added_tokens));
  definition.tokens = TRY(table.tokens());
  return definition;
}

}  // namespace clef
