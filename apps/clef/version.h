// What --version tells.
#pragma once

#include <string>

namespace clef::cli {

// Several lines: the version, the compiler, the backends in this build, and what they use on this machine.
std::string version_text();

}  // namespace clef::cli
