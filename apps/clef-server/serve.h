// A server's life: listen, load, serve, drain.
#pragma once

#include <string_view>

#include "clef-server/options.h"

namespace clef::server_app {

// One message to standard error.
void complain(std::string_view message);

// Returns the exit code.
int serve(Options options);

}  // namespace clef::server_app
