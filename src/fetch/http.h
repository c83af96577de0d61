// HTTP GET over libcurl: one exchange at a time, redirects followed by our own rules.
//
// A token goes to the one origin it was given for and to no other, whatever a redirect says. Certificates are checked.
// Proxies are those of the environment (https_proxy, http_proxy, all_proxy, no_proxy), which libcurl reads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace clef::fetch {

struct HttpOptions {
  std::string token;         // empty: none
  std::string token_origin;  // the only place it goes
  long connect_timeout_s = 15;
  long stall_timeout_s = 30;  // without kStallBytes a second for so long an exchange is given up
  std::string ca_file;        // certificates to trust; empty: the system's
};

inline constexpr long kStallBytes = 1024;
inline constexpr int kMaxRedirects = 10;

struct HttpHead {
  long status = 0;
  std::map<std::string, std::string, std::less<>> fields;  // names in lower case; of a repeated one the last
  const std::string* find(std::string_view name) const;
};

struct HttpRequest {
  std::string url;
  // Bytes [first, end) of the file; end 0: the whole, without a Range.
  std::uint64_t first = 0, end = 0;
};

struct HttpResponse {
  HttpHead head;
  std::string url;   // what answered in the end
  std::string body;  // of an answer that is not 200 or 206: its first kMaxErrorBytes
};

// Why no answer came. `is_lasting`: another try would fail the same.
struct HttpFailure {
  std::string message;
  bool is_lasting = false;
};

class HttpSession {
 public:
  explicit HttpSession(HttpOptions options);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  // Each hop's head, redirects included, with the address that sent it; false stops the exchange.
  using HeadFunction = std::function<bool(const HttpHead&, const std::string& url)>;
  // The body of a 200 or 206, piece by piece; false stops the exchange. With no bytes: called now and then, so that a
  // stop is noticed while nothing arrives.
  using BodyFunction = std::function<bool(std::span<const std::byte>)>;

  // `stopped` is set where one of the functions said so.
  struct Outcome {
    std::optional<HttpFailure> failure;
    bool stopped = false;
    HttpResponse response;
  };
  Outcome get(const HttpRequest& request, const HeadFunction& on_head, const BodyFunction& on_body);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether the token goes to `url`.
bool sends_token(const HttpOptions& options, const std::string& url);

}  // namespace clef::fetch
