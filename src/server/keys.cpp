#include "server/keys.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/whole_number.h"

namespace clef::server {
namespace {

constexpr std::string_view kDigestMark = "sha256:";
constexpr std::size_t kMinKeyBytes = 8;    // shorter ones are guessed
constexpr std::size_t kMaxKeyBytes = 512;  // of what a client presents; hashing more is work for nothing
constexpr std::int64_t kMaxLimit = 1'000'000;
constexpr std::size_t kMaxFileBytes = 16 << 20;

Digest sha256(std::string_view text) {
  Digest digest{};
  unsigned int size = 0;
  const int done = EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  CHECK(done == 1 && size == digest.size());
  return digest;
}

std::optional<Digest> parse_digest(std::string_view hex) {
  Digest digest{};
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const auto [end, error] = std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, digest[i], 16);
    if (error != std::errc{} || end != hex.data() + 2 * i + 2) return std::nullopt;
  }
  return digest;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return words;
    line.remove_prefix(first);
    const std::size_t count = std::min(line.find_first_of(" \t\r"), line.size());
    words.push_back(line.substr(0, count));
    line.remove_prefix(count);
  }
}

// The id stands in logs and as the label of metrics.
bool is_id(std::string_view id) {
  return id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.' ||
                  c == '-';
         });
}

Error bad_line(int number, std::string_view what) {
  return {Errc::bad_request, fmt::format("line {}: {}", number, what)};
}

Status read_option(KeyLimits& limits, std::string_view word, int number) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  const auto value = whole_number(word.substr(std::min(word.size(), equals + 1)), 1, kMaxLimit);
  if (name != "rate" && name != "burst" && name != "concurrency") {
    return bad_line(number, fmt::format("expected rate=N, burst=N or concurrency=N, got '{}'", word));
  }
  if (!value) return bad_line(number, fmt::format("{}: expected a whole number from 1 to {}", name, kMaxLimit));
  if (name == "rate") limits.rate = static_cast<double>(*value);
  if (name == "burst") limits.burst = static_cast<double>(*value);
  if (name == "concurrency") limits.concurrency = *value;
  return {};
}

// Messages never quote the key.
Result<KeyEntry> parse_line(std::string_view line, int number) {
  const auto words = words_of(line);
  if (words.size() < 2) return bad_line(number, "expected ID KEY [rate=N] [burst=N] [concurrency=N]");
  if (!is_id(words[0])) return bad_line(number, "an id has at most 64 of the characters A-Z a-z 0-9 _ . -");
  KeyEntry entry{.id = std::string(words[0]), .digest = {}, .limits = {}};
  if (words[1].substr(0, kDigestMark.size()) == kDigestMark) {
    const auto digest = parse_digest(words[1].substr(kDigestMark.size()));
    if (!digest) return bad_line(number, "expected 64 hexadecimal digits after sha256:");
    entry.digest = *digest;
  } else if (words[1].size() < kMinKeyBytes || words[1].size() > kMaxKeyBytes) {
    return bad_line(number, fmt::format("a key has {} to {} characters", kMinKeyBytes, kMaxKeyBytes));
  } else {
    entry.digest = sha256(words[1]);
  }
  for (std::size_t i = 2; i < words.size(); ++i) TRY(read_option(entry.limits, words[i], number));
  return entry;
}

}  // namespace

std::optional<Digest> digest_of(std::string_view key) {
  if (key.empty() || key.size() > kMaxKeyBytes) return std::nullopt;
  return sha256(key);
}

Result<std::vector<KeyEntry>> parse_keys(std::string_view text) {
  std::vector<KeyEntry> entries;
  std::set<std::string> ids;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto words = words_of(line);
    if (words.empty() || words.front().front() == '#') continue;
    entries.push_back(TRY(parse_line(line, number)));
    if (!ids.insert(entries.back().id).second) {
      return bad_line(number, fmt::format("the id '{}' has a key already", entries.back().id));
    }
  }
  return entries;
}

Result<std::vector<KeyEntry>> read_keys(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{Errc::io, fmt::format("{}: cannot be opened", path.string())};
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) {
    return Error{Errc::bad_request, fmt::format("{}: larger than {} bytes", path.string(), kMaxFileBytes)};
  }
  if (file.bad()) return Error{Errc::io, fmt::format("{}: cannot be read", path.string())};
  auto entries = parse_keys(text);
  if (!entries) return Error{entries.error().code, fmt::format("{}: {}", path.string(), entries.error().message)};
  if (entries->empty()) return Error{Errc::bad_request, fmt::format("{}: no key in it", path.string())};
  return entries;
}

void KeyUse::set_limits(const KeyLimits& limits) {
  KeyLimits complete = limits;
  if (complete.burst == 0) complete.burst = std::max(1.0, complete.rate);
  if (complete == limits_) return;
  limits_ = complete;
  available_ = limits_.burst;
  counted_ = Clock::now();
}

std::optional<std::chrono::milliseconds> KeyUse::take(Clock::time_point now) {
  if (limits_.rate == 0) return std::nullopt;
  const double passed = std::max(0.0, std::chrono::duration<double>(now - counted_).count());
  available_ = std::min(limits_.burst, available_ + passed * limits_.rate);
  counted_ = now;
  if (available_ < 1) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil((1 - available_) / limits_.rate * 1000)));
  }
  available_ -= 1;
  return std::nullopt;
}

void KeyUse::put_back() { available_ = std::min(limits_.burst, available_ + 1); }

bool KeyUse::enter() {
  if (limits_.concurrency != 0 && in_flight_ >= limits_.concurrency) return false;
  ++in_flight_;
  return true;
}

void KeyRing::set(std::vector<KeyEntry> entries) {
  std::map<std::string, std::shared_ptr<KeyUse>> uses;
  for (const KeyEntry& entry : entries) {
    const auto old = uses_.find(entry.id);
    auto& use = uses[entry.id];
    use = old == uses_.end() ? std::make_shared<KeyUse>(entry.id) : old->second;
    use->set_limits(entry.limits);  // changes nothing when they are the same
  }
  uses_ = std::move(uses);
  entries_ = std::move(entries);
}

std::shared_ptr<KeyUse> KeyRing::find(const std::optional<Digest>& digest) const {
  if (!digest) return nullptr;
  const KeyEntry* found = nullptr;
  for (const KeyEntry& entry : entries_) {
    if (CRYPTO_memcmp(entry.digest.data(), digest->data(), digest->size()) == 0) found = &entry;
  }
  return found == nullptr ? nullptr : uses_.at(found->id);
}

}  // namespace clef::server
