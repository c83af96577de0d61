#include "clef/machine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/thread_pool.h"
#include "base/whole_number.h"
#include "ops/device.h"
#include "ops/op.h"

namespace clef::cli {

namespace {

// Those that a kernel of ours uses or might, by the names of /proc/cpuinfo.
constexpr std::string_view kFeatures[] = {"avx2",        "fma",      "f16c",     "avx512f", "avx512bw", "avx512vl",
                                          "avx512_bf16", "amx_tile", "amx_bf16", "sha_ni",  "asimd",    "bf16"};

// "NAME : VALUE" of the first line whose name is one of the system's words for it.
std::string cpu_line(std::string_view wanted) {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(wanted)) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

std::vector<std::string> cpu_features() {
  std::string text = cpu_line("flags");
  if (text.empty()) text = cpu_line("Features");
  std::istringstream words(text);
  std::set<std::string, std::less<>> have;
  for (std::string word; words >> word;) have.insert(word);
  std::vector<std::string> features;
  for (const std::string_view feature : kFeatures) {
    if (have.contains(feature)) features.emplace_back(feature);
  }
  return features;
}

std::uint64_t memory_info(std::string_view name) {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    std::uint64_t kibibytes = 0;
    rest >> kibibytes;
    return kibibytes * 1024;
  }
  return 0;
}

// What a container may use; nothing where it is not limited.
std::optional<std::uint64_t> container_limit() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  std::string text;
  file >> text;
  const auto bytes = whole_number(text, 1, std::int64_t{1} << 62);
  return bytes ? std::optional(static_cast<std::uint64_t>(*bytes)) : std::nullopt;
}

}  // namespace

Machine survey_machine(int num_threads) {
  Machine machine;
  machine.cpu_name = cpu_line("model name");
  if (machine.cpu_name.empty()) machine.cpu_name = "unknown CPU";
  machine.num_cpus = num_threads > 0 ? num_threads : available_cpus();
  machine.cpu_features = cpu_features();
  for (const std::string_view kernels : {"avx512", "avx2", "plain"}) {
    if (!open_device({.device = "cpu", .num_threads = 1, .cpu_kernels = kernels})) continue;
    if (machine.cpu_kernels.empty()) {
      machine.cpu_kernels = kernels;
    } else {
      machine.other_kernels.emplace_back(kernels);
    }
  }
  const long pages = ::sysconf(_SC_PHYS_PAGES), page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    machine.memory_bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
  }
  machine.available_bytes = memory_info("MemAvailable:");
  if (machine.available_bytes == 0) machine.available_bytes = machine.memory_bytes;
  if (const auto limit = container_limit()) {
    machine.memory_bytes = std::min(machine.memory_bytes, *limit);
    machine.available_bytes = std::min(machine.available_bytes, *limit);
  }
  auto gpus = list_gpus();
  if (gpus) {
    machine.gpus = std::move(gpus).value();
    if (machine.gpus.empty()) machine.no_gpu = "none found";
  } else {
    machine.no_gpu = gpus.error().message;
  }
  machine.nvidia_driver = nvidia_driver();
  return machine;
}

std::optional<std::uint64_t> free_space(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::path at = std::filesystem::absolute(path, failure);
  while (!failure && !std::filesystem::exists(at, failure) && at.has_relative_path()) {
    failure.clear();
    at = at.parent_path();
  }
  const auto space = std::filesystem::space(at, failure);
  if (failure) return std::nullopt;
  return space.available;
}

Result<double> measure_product(std::string_view device_name, int num_threads) {
  const std::unique_ptr<Device> device = TRY(open_device({.device = device_name, .num_threads = num_threads}));
  const bool is_cpu = device_name == "cpu";
  const std::int64_t rows = is_cpu ? 128 : 2048, k = is_cpu ? 2048 : 8192, n = k;
  const DType activation = device->activation_dtype();
  // Ones: the time of a product does not depend on its values.
  const std::vector<std::uint16_t> weights(static_cast<std::size_t>(n * k), 0x3f80);
  const auto x_buffer = TRY(device->allocate(static_cast<std::size_t>(rows * k) * size_of(activation)));
  const auto y_buffer = TRY(device->allocate(static_cast<std::size_t>(rows * n) * size_of(activation)));
  const Tensor x{.buffer = x_buffer.get(), .rows = rows, .cols = k, .stride = k, .dtype = activation};
  const Tensor y{.buffer = y_buffer.get(), .rows = rows, .cols = n, .stride = n, .dtype = activation};
  const std::vector<std::byte> zeros(static_cast<std::size_t>(rows * k) * size_of(activation));
  TRY(device->upload(x, zeros));
  const Tensor w =
      TRY(device->adopt(std::as_bytes(std::span(weights)), {.rows = n, .cols = k, .stride = k, .dtype = DType::bf16}));
  using Clock = std::chrono::steady_clock;
  const auto once = [&]() -> Result<double> {
    const auto start = Clock::now();
    const auto pass = device->begin();
    pass->run(Linear{.y = y, .x = x, .w = w, .bias = {}});
    TRY(pass->finish());
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  TRY(once());
  double best = TRY(once());
  const auto begin = Clock::now();
  for (int i = 0; i < 20 && Clock::now() - begin < std::chrono::milliseconds(500); ++i)
    best = std::min(best, TRY(once()));
  return 2.0 * static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(k) / best;
}

}  // namespace clef::cli
