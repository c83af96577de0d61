#include "clef-bench/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <span>

#include "backend/cpu/cpu_device.h"
#include "model/arena.h"
#include "ops/cost.h"

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

Result<double> seconds_of(const Op& op, int repeats, Device& device) {
  constexpr int kRuns = 7;
  std::vector<double> seconds;
  for (int run = 0; run <= kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const auto pass = device.begin();
    for (int i = 0; i < repeats; ++i) pass->run(op);
    TRY(pass->finish());
    if (run == 0) continue;
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / repeats);
  }
  return median(seconds);
}

Result<double> memory_rate(Device& device) {
  constexpr std::int64_t kCols = 4096;
  const bool is_host = device.activation_dtype() == DType::f32;
  const std::int64_t rows = is_host ? 4096 : 32768;  // of f32 64 or 512 MB, more than caches hold
  Arena arena(device);
  TRY(arena.reset(3 * Arena::bytes_for(rows, kCols) + Arena::bytes_for(1, kCols)));
  const Tensor x = arena.take(rows, kCols), y = arena.take(rows, kCols), gain = arena.take(1, kCols);
  const Tensor normed = arena.take(rows, kCols, device.activation_dtype());
  const std::vector<float> ones(static_cast<std::size_t>(rows * kCols), 1.0F);
  TRY(device.upload(x, std::as_bytes(std::span(ones))));
  TRY(device.upload(y, std::as_bytes(std::span(ones))));
  TRY(device.upload(gain, std::as_bytes(std::span(ones).first(kCols))));
  double most = 0;
  const Op ops[] = {AddRows{.y = y, .x = x, .index = {}}, RmsNorm{.y = normed, .x = x, .gain = gain, .eps = 1e-6F}};
  for (const Op& op : ops) most = std::max(most, bytes(op) / TRY(seconds_of(op, 4, device)));
  return most;
}

void print_op_times(const OpTimes& times, double seconds, const Peak& peak) {
  std::printf("  the floor: %.1f GFLOP/s, %.1f GB/s\n", peak.flops / 1e9, peak.bytes / 1e9);
  std::printf("  %-18s %6s %10s %8s %10s %10s %8s\n", "op (last run)", "calls", "ms", "time", "GFLOP/s", "GB/s",
              "of floor");
  for (const auto& [name, time] : times) {
    const double floor = std::max(time.flops / peak.flops, time.bytes / peak.bytes);
    std::printf("  %-18s %6ld %10.2f %7.1f%% %10.1f %10.1f %7.1f%%\n", std::string(name).c_str(),
                static_cast<long>(time.calls), time.seconds * 1e3, 100 * time.seconds / seconds,
                time.flops / time.seconds / 1e9, time.bytes / time.seconds / 1e9, 100 * floor / time.seconds);
  }
}

std::string machine_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

}  // namespace clef::bench
