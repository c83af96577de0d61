// What this machine is, as far as it bears on running a model. For `clef doctor`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/open.h"
#include "base/result.h"

namespace clef::cli {

struct Machine {
  std::string cpu_name;
  int num_cpus = 0;                        // that this process may use
  std::vector<std::string> cpu_features;   // of those that matter here
  std::string cpu_kernels;                 // that would run
  std::vector<std::string> other_kernels;  // that could run, too
  std::uint64_t memory_bytes = 0, available_bytes = 0;
  std::vector<GpuInfo> gpus;
  std::string no_gpu;  // why there is none
  std::optional<std::string> nvidia_driver;
};

Machine survey_machine(int num_threads);

// Bytes free to us on the file system of the nearest folder above `path` that exists; nothing when it cannot be told.
std::optional<std::uint64_t> free_space(const std::filesystem::path& path);

// The floating point operations a second of one matrix product the size of a small layer's, on `device`. Takes a second
// at most.
Result<double> measure_product(std::string_view device, int num_threads);

}  // namespace clef::cli
