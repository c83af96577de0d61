// NVIDIA's driver, asked without being linked: a build without CUDA can still say what is there.
#include <dlfcn.h>
#include <fmt/format.h>

#include "backend/open.h"

namespace clef {

std::optional<std::string> nvidia_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  std::optional<std::string> version;
  // CUresult cuDriverGetVersion(int*); it needs no GPU. Source: CUDA Driver API, Version Management.
  using VersionFunction = int (*)(int*);
  const auto ask = reinterpret_cast<VersionFunction>(::dlsym(library, "cuDriverGetVersion"));
  int number = 0;
  if (ask != nullptr && ask(&number) == 0) version = fmt::format("{}.{}", number / 1000, number % 1000 / 10);
  ::dlclose(library);
  return version;
}

}  // namespace clef
