// What we need of URLs: their origin, a reference resolved against one, and paths quoted into one.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace clef::fetch {

// "https://host:port" with the port always there: what a token belongs to. Errc::bad_request for anything that is no
// http or https URL with a host.
Result<std::string> origin_of(const std::string& url);

// `reference`, as a Location or Link gives it, seen from `base`.
Result<std::string> resolve_url(const std::string& base, const std::string& reference);

// Percent-encodes all but letters, digits, "-._~" and, with `keep_slash`, '/'.
std::string quote_url(std::string_view text, bool keep_slash);

bool is_loopback_origin(std::string_view origin);

// For messages: without user, password, query and fragment, where signatures and secrets stand.
std::string public_url(const std::string& url);

}  // namespace clef::fetch
