#include "fetch/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <utility>

#include "fetch/url.h"

namespace clef::fetch {

namespace {

constexpr std::size_t kMaxErrorBytes = 16 * 1024;
constexpr std::size_t kMaxHeadFields = 200;
constexpr long kBufferBytes = 512 * 1024;  // one read's most; stays in a core's cache until it is hashed and written

void start_curl() {
  static std::once_flag once;
  std::call_once(once, [] { CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// Failures that no second try mends: the address, the certificates, what this libcurl can do.
bool is_lasting(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_NOT_BUILT_IN:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CERTPROBLEM:
      return true;
    default:
      return false;
  }
}

// One exchange as its callbacks see it.
struct Exchange {
  const HttpSession::HeadFunction* on_head;
  const HttpSession::BodyFunction* on_body;
  std::string url;
  HttpHead head;
  std::string error_body;
  bool stopped = false;
  bool head_told = false;

  bool is_content() const { return head.status == 200 || head.status == 206; }
  // False when the caller wants no more.
  bool tell_head() {
    if (head_told) return true;
    head_told = true;
    if (*on_head && !(*on_head)(head, url)) stopped = true;
    return !stopped;
  }
};

std::size_t take_head(char* data, std::size_t, std::size_t size, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  const std::string_view line = trimmed(std::string_view(data, size));
  if (line.starts_with("HTTP/")) {  // a new head: after 100 Continue, or a proxy's
    exchange.head = {};
    exchange.head_told = false;
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos) {
      exchange.head.status = std::strtol(std::string(line.substr(space + 1, 3)).c_str(), nullptr, 10);
    }
    return size;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (exchange.head.fields.size() < kMaxHeadFields) {
    exchange.head.fields[std::move(name)] = trimmed(line.substr(colon + 1));
  }
  return size;
}

std::size_t take_body(char* data, std::size_t, std::size_t size, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  if (!exchange.tell_head()) return 0;
  if (!exchange.is_content()) {
    const std::size_t room = kMaxErrorBytes - std::min(kMaxErrorBytes, exchange.error_body.size());
    exchange.error_body.append(data, std::min(room, size));
    return room > 0 ? size : 0;
  }
  if (*exchange.on_body && !(*exchange.on_body)(std::as_bytes(std::span(data, size)))) {
    exchange.stopped = true;
    return 0;
  }
  return size;
}

int look_around(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  if (*exchange.on_body && !(*exchange.on_body)({})) exchange.stopped = true;
  return exchange.stopped ? 1 : 0;
}

}  // namespace

const std::string* HttpHead::find(std::string_view name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? nullptr : &found->second;
}

bool sends_token(const HttpOptions& options, const std::string& url) {
  if (options.token.empty()) return false;
  const auto origin = origin_of(url);
  return origin && *origin == options.token_origin;
}

struct HttpSession::State {
  HttpOptions options;
  CURL* curl = nullptr;

  Outcome exchange(const HttpRequest& request, const HeadFunction& on_head, const BodyFunction& on_body);
};

HttpSession::HttpSession(HttpOptions options) : state_(std::make_unique<State>()) {
  start_curl();
  state_->options = std::move(options);
  state_->curl = curl_easy_init();
  if (state_->curl == nullptr) throw std::bad_alloc();
}

HttpSession::~HttpSession() { curl_easy_cleanup(state_->curl); }

HttpSession::Outcome HttpSession::State::exchange(const HttpRequest& request, const HeadFunction& on_head,
                                                  const BodyFunction& on_body) {
  curl_easy_reset(curl);  // keeps the connections
  std::unique_ptr<curl_slist, FreeList> fields;
  const auto add_field = [&fields](const std::string& field) {
    curl_slist* longer = curl_slist_append(fields.get(), field.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    (void)fields.release();
    fields.reset(longer);
  };
  if (sends_token(options, request.url)) add_field("Authorization: Bearer " + options.token);
  add_field("Accept-Encoding: identity");  // digests and ranges are of the files as they are

  Exchange state{.on_head = &on_head, .on_body = &on_body, .url = request.url, .head = {}, .error_body = {}};
  char message[CURL_ERROR_SIZE] = {};
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  // Parallel transfers want connections of their own, which HTTP/2 would not add to.
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, fields.get());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "cleffa");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, options.connect_timeout_s);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kStallBytes);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, options.stall_timeout_s);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_head);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &state);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &state);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, look_around);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &state);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  if (!options.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, options.ca_file.c_str());
  const std::string range = fmt::format("{}-{}", request.first, request.end - 1);
  if (request.end > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());

  const CURLcode code = curl_easy_perform(curl);
  const bool was_told = state.head_told;
  if (code == CURLE_OK && !was_told) state.tell_head();  // an answer without a body
  Outcome outcome;
  outcome.stopped = state.stopped;
  outcome.response = {.head = std::move(state.head), .url = request.url, .body = std::move(state.error_body)};
  const bool is_long_error = code == CURLE_WRITE_ERROR && outcome.response.body.size() >= kMaxErrorBytes;
  if (code != CURLE_OK && !outcome.stopped && !is_long_error) {
    outcome.failure = HttpFailure{
        fmt::format("{}: {}", public_url(request.url), message[0] != '\0' ? message : curl_easy_strerror(code)),
        is_lasting(code)};
  }
  return outcome;
}

HttpSession::Outcome HttpSession::get(const HttpRequest& request, const HeadFunction& on_head,
                                      const BodyFunction& on_body) {
  HttpRequest hop = request;
  for (int redirects = 0;; ++redirects) {
    Outcome outcome = state_->exchange(hop, on_head, on_body);
    const long status = outcome.response.head.status;
    const bool is_redirect = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
    if (outcome.failure || outcome.stopped || !is_redirect) return outcome;
    const auto fail = [&](const std::string& what) {
      outcome.failure = HttpFailure{fmt::format("{}: {}", public_url(hop.url), what), true};
      return outcome;
    };
    const std::string* location = outcome.response.head.find("location");
    if (location == nullptr) return fail("a redirect that names no place");
    if (redirects == kMaxRedirects) return fail(fmt::format("more than {} redirects", kMaxRedirects));
    const auto next = resolve_url(hop.url, *location);
    if (!next) return fail("a redirect to something that is no http or https address");
    if (hop.url.starts_with("https:") && !next->starts_with("https:")) {
      return fail(fmt::format("a redirect from https to {}, which is not encrypted", public_url(*next)));
    }
    hop.url = *next;
  }
}

}  // namespace clef::fetch
