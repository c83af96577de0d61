// Opens the machine a user names.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ops/device.h"

namespace clef {

struct DeviceOptions {
  std::string_view device = "auto";   // "cpu", "cuda", "cuda:N"; "auto": the first GPU that can be used, or the CPU
  int num_threads = 0;                // of the CPU; 0: one for each CPU this process may use
  std::string_view cpu_kernels = {};  // "avx512", "avx2", "plain"; empty: the best this machine has
};

// Errc::unsupported names the devices of this build, or says what the one asked for lacks.
Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options);

// For --version: the backends in this build and what each would run on here, one line each.
std::string describe_backends();

}  // namespace clef
