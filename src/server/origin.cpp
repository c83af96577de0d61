#include "server/origin.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string>

#include "base/whole_number.h"

namespace clef::server {
namespace {

constexpr std::string_view kLocalhost = "localhost";

struct Authority {
  std::string host;  // in lower case; an IPv6 address without its brackets
  bool is_v6 = false;
  bool is_valid = false;
};

// "name", "name:80", "1.2.3.4:80", "[::1]:80"
Authority parse_authority(std::string_view text) {
  Authority authority;
  authority.is_v6 = !text.empty() && text.front() == '[';
  if (authority.is_v6) text.remove_prefix(1);
  const std::size_t end = std::min(text.find(authority.is_v6 ? ']' : ':'), text.size());
  authority.host = std::string(text.substr(0, end));
  text.remove_prefix(end);
  if (authority.is_v6) {
    if (text.empty()) return authority;
    text.remove_prefix(1);
  }
  for (char& c : authority.host) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const bool is_name = std::all_of(authority.host.begin(), authority.host.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_' ||
           (authority.is_v6 && c == ':');
  });
  const bool is_port = text.empty() || (text.front() == ':' && whole_number(text.substr(1), 0, 65535));
  authority.is_valid = is_name && is_port && !authority.host.empty();
  return authority;
}

}  // namespace

bool is_origin(std::string_view text) {
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos || colon == 0) return false;
  const bool is_scheme = std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(colon), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
  return is_scheme && parse_authority(text.substr(colon + 3)).is_valid;
}

bool is_fixed_host(std::string_view text) {
  const Authority authority = parse_authority(text);
  if (!authority.is_valid) return false;
  in_addr v4{};
  in6_addr v6{};
  if (authority.is_v6) return ::inet_pton(AF_INET6, authority.host.c_str(), &v6) == 1;
  if (::inet_pton(AF_INET, authority.host.c_str(), &v4) == 1) return true;
  const std::string_view host = authority.host;
  if (host == kLocalhost) return true;
  // RFC 6761, 6.3: names below it are this machine's, too.
  return host.size() > kLocalhost.size() + 1 && host.substr(host.size() - kLocalhost.size()) == kLocalhost &&
         host[host.size() - kLocalhost.size() - 1] == '.';
}

}  // namespace clef::server
