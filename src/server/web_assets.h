// The page served at "/" and the files that it loads, all from the binary: cmake/web_assets.cmake puts web/ there.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/http_message.h"
#include "server/routes.h"

namespace clef::server {

struct WebAsset {
  std::string_view
      path;  // "/", or "/assets/DIGEST/app.js": what has the digest of all of web/ in its name never changes
  std::string_view content_type;
  std::string_view digest;  // SHA-256 of the file, in hexadecimal digits
  std::span<const unsigned char> gzip;
};

std::span<const WebAsset> web_assets();

// The asset at a path; null pointer when there is none.
const WebAsset* find_web_asset(std::string_view path);

// What requests for assets are counted as.
inline constexpr Route kWebRoute = {RouteId::web, "web", "GET", "/", Wire::systemone, false};

// The answer to GET: gzip where the client takes it, 304 where it has these bytes already.
Response web_response(const WebAsset& asset, const RequestHead& head);

// The Content-Security-Policy of the page: its own files, and requests to this server and to one engine elsewhere.
// `engine` is that engine's origin ("https://host:8080"); anything that is no origin counts as none, and so
// does an IPv6 address: policies have no word for those.
std::string web_policy(std::string_view engine);

}  // namespace clef::server
