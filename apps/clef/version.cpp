#include "clef/version.h"

#include <fmt/format.h>

#include "base/thread_pool.h"

namespace clef::cli {

std::string version_text() {
#if defined(__clang__)
  const std::string compiler = fmt::format("clang {}", __clang_version__);
#else
  const std::string compiler = fmt::format("gcc {}", __VERSION__);
#endif
  return fmt::format(
      "cleffa {}\n"
      "compiler  {}\n"
      "backends  cpu ({} threads here)\n",
      CLEF_VERSION, compiler, available_cpus());
}

}  // namespace clef::cli
