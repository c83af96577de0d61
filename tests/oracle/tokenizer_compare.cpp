// Compares our tokenizer with the reference's results on many strings:
//   tokenizer_compare TOKENIZER_JSON TOKENIZER_CONFIG_JSON CASES
// CASES is what tools/tokenizer_oracle/make_cases.mjs writes; its format is described there.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace clef {
namespace {

constexpr std::uint32_t kMagic = 0x434b4f54;

[[noreturn]] void fail(const std::string& message) {
  fmt::print(stderr, "tokenizer_compare: {}\n", message);
  std::exit(2);
}

template <typename T>
T unwrap(Result<T> result) {
  if (!result) fail(result.error().message);
  return std::move(result).value();
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

class CaseReader {
 public:
  explicit CaseReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint32_t number() {
    std::uint32_t value;
    std::memcpy(&value, take(4).data(), 4);
    return value;
  }
  std::string_view text() { return take(number()); }
  std::vector<std::int32_t> numbers() {
    std::vector<std::int32_t> values(number());
    std::memcpy(values.data(), take(values.size() * 4).data(), values.size() * 4);
    return values;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::string_view take(std::size_t count) {
    if (count > bytes_.size()) fail("the file of cases ends early");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::string_view bytes_;
};

std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const DecodedCodePoint c = decode_utf8(text, at);
    const bool is_plain = c.value >= 0x20 && c.value < 0x7f;
    out += is_plain ? std::string(1, static_cast<char>(c.value)) : fmt::format("\\u{{{:x}}}", std::uint32_t{c.value});
    at += c.bytes;
  }
  return out;
}

struct Differences {
  std::size_t total = 0;

  void add(std::string_view what, std::string_view text, const std::string& expected, const std::string& got) {
    constexpr std::size_t kShown = 20;
    if (++total > kShown) return;
    fmt::print(stderr, "{} of \"{}\":\n  expected {}\n  got      {}\n", what, escaped(text), expected, got);
  }
};

template <typename T>
std::string joined(const std::vector<T>& values) {
  return fmt::format("{}", fmt::join(values, " "));
}

std::vector<std::int32_t> word_lengths(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> lengths;
  for (const std::string& word : tokenizer.split(text)) lengths.push_back(static_cast<std::int32_t>(word.size()));
  return lengths;
}

int run(int argc, char** argv) {
  if (argc != 4) fail("expected TOKENIZER_JSON TOKENIZER_CONFIG_JSON CASES");
  const MappedFile tokenizer_json = unwrap(MappedFile::open(argv[1]));
  const MappedFile config_json = unwrap(MappedFile::open(argv[2]));
  TokenizerDefinition definition = unwrap(parse_tokenizer(text_of(tokenizer_json), text_of(config_json)));
  std::vector<Tokenizer> tokenizers;
  for (const SplitPattern pattern : {SplitPattern::qwen2, SplitPattern::qwen35}) {
    definition.pattern = pattern;
    tokenizers.push_back(unwrap(Tokenizer::create(definition)));
  }

  const MappedFile cases = unwrap(MappedFile::open(argv[3]));
  CaseReader reader(text_of(cases));
  if (reader.number() != kMagic) fail("not a file of cases");
  const std::uint32_t count = reader.number();
  Differences differences;
  std::size_t num_ids = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string_view text = reader.text();
    const std::string_view normal = reader.text();
    std::string ours;
    append_nfc(ours, text);
    if (ours != normal) differences.add("NFC", text, escaped(normal), escaped(ours));
    if (is_nfc(text) && text != normal) differences.add("quick check", text, "not in NFC", "in NFC");
    for (const Tokenizer& tokenizer : tokenizers) {
      const auto compare = [&](std::string_view what, const std::vector<std::int32_t>& expected,
                               const std::vector<std::int32_t>& got) {
        if (got != expected) differences.add(what, text, joined(expected), joined(got));
      };
      compare("word lengths", reader.numbers(), word_lengths(tokenizer, text));
      const std::vector<std::int32_t> ids = reader.numbers();
      compare("ids", ids, tokenizer.encode(text));
      compare("strict ids", reader.numbers(), tokenizer.encode(text, {.match_added_tokens = false}));
      num_ids += ids.size();
    }
  }
  if (!reader.at_end() || count == 0) fail("the file of cases has the wrong size");
  fmt::print("tokenizer_compare: {} strings, {} ids, 2 patterns: {} differences\n", count, num_ids, differences.total);
  return differences.total == 0 ? 0 : 1;
}

}  // namespace
}  // namespace clef

int main(int argc, char** argv) { return clef::run(argc, argv); }
