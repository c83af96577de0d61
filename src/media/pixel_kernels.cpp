// Which set this machine can run.
#include "media/pixel_kernels.h"

#include <cstring>

namespace clef::media {

const PixelKernels* find_pixel_kernels(const char* name) {
#if defined(__x86_64__)
  if (std::strcmp(name, kPixelKernelsAvx2.name) == 0) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") ? &kPixelKernelsAvx2 : nullptr;
  }
#endif
  return std::strcmp(name, kPixelKernelsPlain.name) == 0 ? &kPixelKernelsPlain : nullptr;
}

const PixelKernels& best_pixel_kernels() {
  static const PixelKernels* const avx2 = find_pixel_kernels("avx2");
  return avx2 != nullptr ? *avx2 : kPixelKernelsPlain;
}

}  // namespace clef::media
