// A whole forward pass, and what each op of it takes.
#include <cstdio>

#include <sys/resource.h>

#include "backend/cpu/cpu_device.h"
#include "clef-bench/bench.h"
#include "model/model_file.h"
#include "model/network.h"
#include "ops/decorators/timed_pass.h"

namespace clef::bench {

namespace {

long peak_resident_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

}  // namespace

int bench_forward(const Settings& settings, const std::string& model, const std::vector<int>& tokens) {
  auto opened = open_cpu_device({.num_threads = settings.num_threads, .kernels = settings.kernels});
  auto file = open_model(model);
  if (!opened || !file) {
    std::fprintf(stderr, "clef-bench: %s\n", (!opened ? opened.error() : file.error()).message.c_str());
    return 1;
  }
  Device& device = **opened;
  auto network = Network::load(*file, device);
  if (!network) {
    std::fprintf(stderr, "clef-bench: %s\n", network.error().message.c_str());
    return 1;
  }
  (*network)->share_prefix(false);  // every run does what the first does
  std::printf("%s, %s, %s\n", machine_name().c_str(), device.name().c_str(), file->config.name.c_str());
  double memory = 0;
  for (const int count : tokens) {
    if (count < 64) {
      std::fprintf(stderr, "clef-bench: --tokens: expected at least 64, got %d\n", count);
      return 2;
    }
    const EncodedRecord record = make_record(count, file->config.text.vocab_size, 1);
    const EncodedRecord* records[] = {&record};
    OpTimes times;
    struct Target {
      Device& device;
      OpTimes& times;
    } target{device, times};
    const auto wrap = [](std::unique_ptr<Pass> pass, void* context) -> std::unique_ptr<Pass> {
      const auto& to = *static_cast<Target*>(context);
      return std::make_unique<TimedPass>(std::move(pass), to.device, to.times);
    };
    double peak = 0;
    const double seconds = time_beside_peak(
        settings,
        [&] {
          times.clear();
          if (auto result = (*network)->run(records, wrap, &target); !result) {
            std::fprintf(stderr, "clef-bench: %s\n", result.error().message.c_str());
          }
        },
        peak);
    double flops = 0;
    for (const auto& [name, time] : times) flops += time.flops;
    std::printf(
        "\n%d tokens: %.1f ms, %.0f tokens/s, %.1f GFLOP/s of a peak of %.1f: %.1f%%; resident %ld MiB at most\n",
        count, seconds * 1e3, count / seconds, flops / seconds / 1e9, peak / 1e9, 100 * flops / seconds / peak,
        peak_resident_mib());
    if (memory == 0) {  // only now, as it takes memory itself
      const auto rate = memory_rate(device);
      if (!rate) {
        std::fprintf(stderr, "clef-bench: %s\n", rate.error().message.c_str());
        return 1;
      }
      memory = *rate;
    }
    print_op_times(times, seconds, {.flops = peak, .bytes = memory});
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace clef::bench
