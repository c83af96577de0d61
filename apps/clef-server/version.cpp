#include "clef-server/version.h"

#include <fmt/format.h>

#include "backend/open.h"

namespace clef::server_app {

std::string version_number() { return CLEF_VERSION; }

std::string version_text() {
#if defined(__clang__)
  const std::string compiler = fmt::format("clang {}", __clang_version__);
#else
  const std::string compiler = fmt::format("gcc {}", __VERSION__);
#endif
  return fmt::format("cleffa {}, built with {}\n{}", CLEF_VERSION, compiler, describe_backends());
}

}  // namespace clef::server_app
