// When a failed exchange is worth another try, and after how long.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "fetch/http.h"

namespace clef::fetch {

struct RetryPolicy {
  int max_tries = 6;                      // in a row without a byte gained
  std::chrono::milliseconds first{1000};  // doubled with each try, up to
  std::chrono::milliseconds longest{60'000};
  std::chrono::milliseconds longest_asked{300'000};  // what a server may ask for; beyond it we give up
};

// 408, 425, 429 and the 5xx that pass.
bool is_passing(long status);

// What the server asks for: Retry-After in seconds or as a date, or else the reset of a RateLimit field
// ("...;t=SECONDS").
std::optional<std::chrono::milliseconds> asked_delay(const HttpHead& head, std::int64_t now_s);

// The wait before try number `tries` + 1. `jitter` in [0, 1) spreads clients that failed together.
std::chrono::milliseconds backoff(const RetryPolicy& policy, int tries, double jitter);

}  // namespace clef::fetch
