#include "server/web_assets.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "server/inflate.h"

namespace clef::server {
namespace {

constexpr std::size_t kMaxAssetBytes = 4 << 20;
constexpr std::size_t kMaxOriginBytes = 255;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// Whether some element of a comma-separated field satisfies `is_it`.
template <typename Predicate>
bool any_element(std::string_view list, Predicate is_it) {
  while (!list.empty()) {
    const std::string_view element = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), element.size() + 1));
    if (is_it(trimmed(element))) return true;
  }
  return false;
}

// RFC 9110, 12.5.3, as far as browsers and curl use it: "gzip" named, and not with a weight of zero.
bool takes_gzip(const RequestHead& head) {
  const std::string* codings = head.field("accept-encoding");
  return codings != nullptr && any_element(*codings, [](std::string_view coding) {
           const std::size_t semicolon = std::min(coding.find(';'), coding.size());
           if (trimmed(coding.substr(0, semicolon)) != "gzip") return false;
           const std::string_view weight = trimmed(coding.substr(std::min(coding.size(), semicolon + 1)));
           return weight.empty() || weight.find_first_of("123456789") != std::string_view::npos;
         });
}

// Weak comparison (RFC 9110, 13.1.2).
bool has_already(const RequestHead& head, std::string_view etag) {
  const std::string* tags = head.field("if-none-match");
  return tags != nullptr && any_element(*tags, [&](std::string_view tag) {
           if (tag.substr(0, 2) == "W/") tag.remove_prefix(2);
           return tag == "*" || tag == etag;
         });
}

bool is_origin(std::string_view text) {
  if (text.size() > kMaxOriginBytes) return false;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (text.substr(0, scheme.size()) != scheme) continue;
    const std::string_view host = text.substr(scheme.size());
    return !host.empty() && std::all_of(host.begin(), host.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' || c == '-' ||
             c == '_' || c == ':';
    });
  }
  return false;
}

}  // namespace

const WebAsset* find_web_asset(std::string_view path) {
  const auto assets = web_assets();
  const auto found = std::find_if(assets.begin(), assets.end(), [&](const WebAsset& a) { return a.path == path; });
  return found == assets.end() ? nullptr : &*found;
}

std::string web_policy(std::string_view engine) {
  const std::string elsewhere = is_origin(engine) ? fmt::format(" {}", engine) : "";
  return fmt::format(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
      "connect-src 'self'{}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
      "require-trusted-types-for 'script'; trusted-types 'none'",
      elsewhere);
}

Response web_response(const WebAsset& asset, const RequestHead& head) {
  const bool is_page = asset.path == "/";
  const bool is_gzip = takes_gzip(head);
  const std::string etag = fmt::format("\"{}{}\"", asset.digest, is_gzip ? "-gzip" : "");
  Response response;
  response.content_type = asset.content_type;
  response.fields = {
      {"ETag", etag},
      {"Vary", "Accept-Encoding"},
      {"Cache-Control", is_page ? "no-cache" : "public, max-age=31536000, immutable"},
      {"X-Content-Type-Options", "nosniff"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
  };
  if (is_page) {
    const auto engine = query_value(head.query, "engine");
    response.fields.insert(
        response.fields.end(),
        {{"Content-Security-Policy", web_policy(engine.value_or(""))},
         {"Permissions-Policy", "camera=(self), display-capture=(self), microphone=(), geolocation=()"},
         {"Cross-Origin-Opener-Policy", "same-origin"},
         {"Referrer-Policy", "no-referrer"},
         {"X-Frame-Options", "DENY"}});
  }
  if (has_already(head, etag)) {
    response.status = 304;
    return response;
  }
  const std::string_view compressed(reinterpret_cast<const char*>(asset.gzip.data()), asset.gzip.size());
  if (is_gzip) {
    response.fields.emplace_back("Content-Encoding", "gzip");
    response.body = compressed;
  } else {
    auto plain = gunzip(compressed, kMaxAssetBytes);
    CHECK(plain, "{}: {}", asset.path, plain.error().message);
    response.body = std::move(plain).value();
  }
  return response;
}

}  // namespace clef::server
