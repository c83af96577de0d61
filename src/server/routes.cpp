#include "server/routes.h"

#include <algorithm>

namespace clef::server {
namespace {

constexpr std::string_view kWorkersRoot = "/client/v4/";

constexpr Route kRoutes[] = {
    {RouteId::systemone, "systemone", "POST", "/v1/systemone", Wire::systemone, true},
    {RouteId::batch, "batch", "POST", "/v1/systemone/batch", Wire::systemone, true},
    {RouteId::decisions, "decisions", "POST", "/v1/decisions", Wire::openai, true},
    {RouteId::workers, "workers", "POST", "/client/v4/accounts/{account}/ai/run/@cf/cloudflare/{model}", Wire::workers,
     true},
    {RouteId::models, "models", "GET", "/v1/models", Wire::systemone, true},
    {RouteId::health, "health", "GET", "/health", Wire::systemone, false},
    {RouteId::ready, "ready", "GET", "/ready", Wire::systemone, false},
    {RouteId::metrics, "metrics", "GET", "/metrics", Wire::systemone, true},
    {RouteId::version, "version", "GET", "/version", Wire::systemone, false},
    {RouteId::openapi, "openapi", "GET", "/openapi.json", Wire::systemone, false},
};

std::string_view take_segment(std::string_view& path) {
  const std::string_view segment = path.substr(0, path.find('/'));
  path.remove_prefix(std::min(path.size(), segment.size() + 1));
  return segment;
}

// Segment by segment; "%40" is what some clients make of '@'.
bool matches(std::string_view pattern, std::string_view path, std::string& model) {
  if (std::count(pattern.begin(), pattern.end(), '/') != std::count(path.begin(), path.end(), '/')) return false;
  while (!pattern.empty() || !path.empty()) {
    const std::string_view expected = take_segment(pattern), segment = take_segment(path);
    if (!expected.empty() && expected.front() == '{') {
      if (segment.empty()) return false;
      if (expected == "{model}") model = std::string(segment);
    } else if (expected != segment && !(expected == "@cf" && segment == "%40cf")) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

Match find_route(std::string_view path) {
  for (const Route& route : kRoutes) {
    Match match;
    if (matches(route.path, path, match.model)) {
      match.route = &route;
      return match;
    }
  }
  return {};
}

Wire wire_of(std::string_view path) {
  if (const Route* route = find_route(path).route) return route->wire;
  return path.substr(0, kWorkersRoot.size()) == kWorkersRoot ? Wire::workers : Wire::systemone;
}

}  // namespace clef::server
