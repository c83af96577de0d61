// Which table this machine can run.
#include <cstring>

#include "backend/cpu/kernels/kernels.h"

namespace clef::cpu {

const Kernels* find_kernels(const char* name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (std::strcmp(name, kKernelsAvx512.name) == 0) {
    const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return has ? &kKernelsAvx512 : nullptr;
  }
  if (std::strcmp(name, kKernelsAvx2.name) == 0) {
    // Every CPU with AVX2 and FMA so far has F16C as well.
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kKernelsAvx2 : nullptr;
  }
#endif
  return std::strcmp(name, kKernelsPlain.name) == 0 ? &kKernelsPlain : nullptr;
}

const Kernels& best_kernels() {
  if (const Kernels* kernels = find_kernels("avx512")) return *kernels;
  if (const Kernels* kernels = find_kernels("avx2")) return *kernels;
  return kKernelsPlain;
}

}  // namespace clef::cpu
