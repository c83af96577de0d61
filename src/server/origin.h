// Which names a browser's page may give for itself and for this server.
#pragma once

#include <string_view>

namespace clef::server {

// "https://app.example" or "http://127.0.0.1:3000": scheme, host and perhaps a port, as browsers send it. No path.
bool is_origin(std::string_view text);

// Whether a Host field names a machine that no one else's name service decides: an address, or localhost. Any other
// name may have been pointed at this machine by whoever owns it, together with a page of the same name (DNS rebinding).
bool is_fixed_host(std::string_view host);

}  // namespace clef::server
