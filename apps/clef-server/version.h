// What --version tells.
#pragma once

#include <string>

namespace clef::server_app {

std::string version_number();  // "0.1.0"

// Several lines: the version, the compiler, the backends in this build, and what they use on this machine.
std::string version_text();

}  // namespace clef::server_app
