#include "fetch/url.h"

#include <curl/curl.h>

#include <memory>

namespace clef::fetch {

namespace {

struct FreeUrl {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, FreeUrl>;

Error not_a_url(const std::string& text) {
  return Error{Errc::bad_request, fmt::format("'{}': expected an http:// or https:// address", text)};
}

Result<Url> parse(const std::string& text) {
  Url url(curl_url());
  if (url == nullptr) throw std::bad_alloc();
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return not_a_url(text);
  return url;
}

std::string part(const Url& url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), which, &text, flags) != CURLUE_OK) return "";
  std::string copy(text);
  curl_free(text);
  return copy;
}

}  // namespace

Result<std::string> origin_of(const std::string& text) {
  const Url url = TRY(parse(text));
  const std::string scheme = part(url, CURLUPART_SCHEME);
  std::string host = part(url, CURLUPART_HOST);
  if ((scheme != "http" && scheme != "https") || host.empty()) return not_a_url(text);
  for (char& c : host) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return fmt::format("{}://{}:{}", scheme, host, part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

Result<std::string> resolve_url(const std::string& base, const std::string& reference) {
  const Url url = TRY(parse(base));
  if (curl_url_set(url.get(), CURLUPART_URL, reference.c_str(), 0) != CURLUE_OK) return not_a_url(reference);
  const std::string resolved = part(url, CURLUPART_URL);
  TRY(origin_of(resolved));
  return resolved;
}

std::string quote_url(std::string_view text, bool keep_slash) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                          c == '.' || c == '_' || c == '~' || (c == '/' && keep_slash);
    if (is_plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

bool is_loopback_origin(std::string_view origin) {
  const std::size_t start = origin.find("//");
  const std::string_view host = start == std::string_view::npos ? origin : origin.substr(start + 2);
  return host.starts_with("localhost:") || host.starts_with("127.") || host.starts_with("[::1]:");
}

std::string public_url(const std::string& text) {
  const auto url = parse(text);
  if (!url) return "(unreadable address)";
  for (const CURLUPart secret : {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    curl_url_set(url->get(), secret, nullptr, 0);
  }
  return part(*url, CURLUPART_URL);
}

}  // namespace clef::fetch
