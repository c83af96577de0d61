#include "fetch/retry.h"

#include <curl/curl.h>

#include <algorithm>

#include "base/whole_number.h"

namespace clef::fetch {

namespace {

constexpr std::int64_t kMostSeconds = 1'000'000;

}  // namespace

bool is_passing(long status) {
  return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 || status == 503 ||
         status == 504 || (status >= 520 && status <= 524) || status == 529;
}

std::optional<std::chrono::milliseconds> asked_delay(const HttpHead& head, std::int64_t now_s) {
  if (const std::string* text = head.find("retry-after")) {
    if (const auto seconds = whole_number(*text, 0, kMostSeconds)) return std::chrono::seconds(*seconds);
    const std::int64_t date = curl_getdate(text->c_str(), nullptr);
    if (date >= 0) return std::chrono::seconds(std::clamp<std::int64_t>(date - now_s, 0, kMostSeconds));
  }
  if (const std::string* text = head.find("ratelimit")) {
    const std::size_t at = text->find(";t=");
    if (at != std::string::npos) {
      const std::string_view rest = std::string_view(*text).substr(at + 3);
      const auto seconds = whole_number(rest.substr(0, rest.find_first_not_of("0123456789")), 0, kMostSeconds);
      if (seconds) return std::chrono::seconds(*seconds);
    }
  }
  return std::nullopt;
}

std::chrono::milliseconds backoff(const RetryPolicy& policy, int tries, double jitter) {
  const int doublings = std::clamp(tries - 1, 0, 20);
  const auto full = std::min(policy.longest, policy.first * (std::int64_t{1} << doublings));
  // From half to the whole: never at once, never all together.
  return std::chrono::milliseconds(static_cast<std::int64_t>(static_cast<double>(full.count()) * (0.5 + 0.5 * jitter)));
}

}  // namespace clef::fetch
