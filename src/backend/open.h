// Opens the machine a user names.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ops/device.h"

namespace clef {

struct DeviceOptions {
  std::string_view device = "auto";   // "cpu", "cuda", "cuda:N"; "auto": the first GPU that can be used, or the CPU
  int num_threads = 0;                // of the CPU; 0: one for each CPU this process may use
  std::string_view cpu_kernels = {};  // "avx512", "avx2", "plain"; empty: the best this machine has
  // Of a GPU: the first layers whose activations stay f32, "all" for every one; empty: the backend's own choice.
  std::string_view f32_layers = {};
};

// Errc::bad_request unless f32_layers may say this: a whole number of layers, "all", or nothing.
Status check_f32_layers(std::string_view f32_layers);

// Errc::bad_request for f32_layers that mean nothing, on any device. Errc::unsupported names the devices of this build,
// or says what the one asked for lacks.
Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options);

// A GPU of this machine, for people.
struct GpuInfo {
  std::string device;  // what open_device takes: "cuda:0"
  std::string name, architecture;
  std::size_t free_bytes = 0, total_bytes = 0;
  bool is_usable = false;
};

// The error says why there are none: no driver, no GPU, or a build without a backend for them.
Result<std::vector<GpuInfo>> list_gpus();

// The version of NVIDIA's driver as CUDA counts it, "13.0"; nothing without one. Any build can tell.
std::optional<std::string> nvidia_driver();

// For --version: the backends in this build and what each would run on here, one line each.
std::string describe_backends();

}  // namespace clef
