#include "clef-bench/bench.h"

#include <algorithm>
#include <chrono>
#include <fstream>

#include "backend/cpu/cpu_device.h"

namespace clef::bench {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double time_beside_peak(const Settings& settings, const std::function<void()>& work, double& peak_flops) {
  work();
  std::vector<double> seconds, peaks;
  for (int run = 0; run < settings.runs; ++run) {
    peaks.push_back(measure_cpu_fma_peak({.num_threads = settings.num_threads, .kernels = settings.kernels}, 0.1));
    const auto start = std::chrono::steady_clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  peak_flops = median(peaks);
  return median(seconds);
}

std::string machine_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

}  // namespace clef::bench
