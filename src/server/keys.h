// API keys: who may ask, how often, and how much at once.
//
// A keys file has one key a line: ID KEY [rate=N] [burst=N] [concurrency=N]. KEY is the key itself or "sha256:" and the
// 64 hexadecimal digits of its digest. Empty lines and lines that begin with '#' are skipped.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace clef::server {

struct KeyLimits {
  double rate = 0;               // requests a second; 0: any
  double burst = 0;              // requests at once after a pause; 0: the rate, but at least 1
  std::int64_t concurrency = 0;  // requests not yet answered; 0: any
  bool operator==(const KeyLimits&) const = default;
};

using Digest = std::array<std::uint8_t, 32>;  // SHA-256

struct KeyEntry {
  std::string id;
  Digest digest;
  KeyLimits limits;
};

// Of what a client presents; none for what is empty or longer than keys are.
std::optional<Digest> digest_of(std::string_view key);

// Errc::bad_request names the line.
Result<std::vector<KeyEntry>> parse_keys(std::string_view text);

// One key at work. Belongs to the I/O thread.
class KeyUse {
 public:
  using Clock = std::chrono::steady_clock;
  explicit KeyUse(std::string id) : id_(std::move(id)) {}

  const std::string& id() const { return id_; }
  // Changed limits begin with a full burst.
  void set_limits(const KeyLimits& limits);

  // Takes one request of the rate's; when there is none, how long until there is.
  std::optional<std::chrono::milliseconds> take(Clock::time_point now);
  // What was taken was not used after all.
  void put_back();
  // One more request in work, if the key may have it; each true wants one leave().
  bool enter();
  void leave() { --in_flight_; }
  std::int64_t in_flight() const { return in_flight_; }

 private:
  std::string id_;
  KeyLimits limits_;
  double available_ = 0;
  Clock::time_point counted_;
  std::int64_t in_flight_ = 0;
};

// The keys of a file; none at all lets everyone in. Belongs to the I/O thread.
class KeyRing {
 public:
  // Replaces the keys. Those whose id stays go on with what they have used.
  void set(std::vector<KeyEntry> entries);
  bool is_open() const { return entries_.empty(); }

  // The key's use; null pointer for a key that is not known. Every key is compared, in the same time.
  std::shared_ptr<KeyUse> find(const std::optional<Digest>& digest) const;
  std::shared_ptr<KeyUse> find(std::string_view key) const { return find(digest_of(key)); }
  // Of those who need no key.
  const std::shared_ptr<KeyUse>& anonymous() const { return anonymous_; }

 private:
  std::vector<KeyEntry> entries_;
  std::map<std::string, std::shared_ptr<KeyUse>> uses_;
  std::shared_ptr<KeyUse> anonymous_ = std::make_shared<KeyUse>("");
};

// Reads and parses; Errc::io or bad_request with the file's name. A file with no key in it is an error: it would let
// everyone in.
Result<std::vector<KeyEntry>> read_keys(const std::filesystem::path& path);

}  // namespace clef::server
