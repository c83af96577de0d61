#include "base/program_path.h"

#include <climits>
#include <cstdint>
#include <system_error>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

namespace clef {

Result<std::filesystem::path> program_path() {
#ifdef __APPLE__
  char name[PATH_MAX];
  std::uint32_t size = sizeof name;
  if (_NSGetExecutablePath(name, &size) != 0) return Error{Errc::io, "the program's own path is too long"};
  const std::filesystem::path path = name;
#else
  const std::filesystem::path path = "/proc/self/exe";
#endif
  std::error_code failure;
  std::filesystem::path found = std::filesystem::canonical(path, failure);
  if (failure) return Error{Errc::io, fmt::format("{}: {}", path.string(), failure.message())};
  return found;
}

}  // namespace clef
