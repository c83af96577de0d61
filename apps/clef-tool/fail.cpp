#include <fmt/format.h>

#include <cstdio>

#include "commands.h"

namespace clef {

int fail(const Error& error) {
  std::fputs(fmt::format("clef-tool: {}\n", error.message).c_str(), stderr);
  return kExitFailure;
}

}  // namespace clef
