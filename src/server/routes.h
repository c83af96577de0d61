// What is served under which path. The OpenAPI document holds the same table, and a test compares them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/failure.h"

namespace clef::server {

enum class RouteId : std::uint8_t {
  systemone,
  batch,
  decisions,
  workers,
  models,
  health,
  ready,
  metrics,
  version,
  openapi,
  web
};

struct Route {
  RouteId id;
  std::string_view name;    // of metrics' label
  std::string_view method;  // GET routes answer HEAD as well
  std::string_view path;    // with {parameters}, each one segment
  Wire wire;
  bool needs_key;
};

std::span<const Route> routes();

struct Match {
  const Route* route = nullptr;  // null pointer: nothing is there
  std::string model;             // of the path, when it names one
};

Match find_route(std::string_view path);

// The wire in which a path that may not exist is refused.
Wire wire_of(std::string_view path);

}  // namespace clef::server
