#include "clef-tool/commands.h"

#include <fmt/format.h>

#include <cstdio>

#include "clef-tool/lines.h"

namespace clef {

int fail(const Error& error) {
  std::fputs(fmt::format("clef-tool: {}\n", error.message).c_str(), stderr);
  return kExitFailure;
}

int print(std::string_view text) {
  const Status written = write_stdout(text);
  return written ? 0 : fail(written.error());
}

}  // namespace clef
