// The CPU as a Device: weights are read where they are mapped, activations are float32, ops run at once.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "ops/device.h"

namespace clef {

struct CpuOptions {
  int num_threads = 0;            // 0: one for each CPU this process may use
  std::string_view kernels = {};  // "avx512", "avx2", "plain"; empty: the best this machine has
};

// Errc::unsupported when the machine lacks the kernels asked for.
Result<std::unique_ptr<Device>> open_cpu_device(const CpuOptions& options);

// The floating point operations a second that fma on registers reaches with all threads: the roof of every product.
double measure_cpu_fma_peak(const CpuOptions& options, double seconds);

}  // namespace clef
