// The vision tower alone, on one image.
#include <cstdio>

#include "backend/cpu/cpu_device.h"
#include "clef-bench/bench.h"
#include "model/model_file.h"
#include "model/vision.h"

namespace clef::bench {

namespace {

Status run(const Settings& settings, const std::string& model, const std::vector<int>& sizes) {
  const auto device = TRY(open_cpu_device({.num_threads = settings.num_threads, .kernels = settings.kernels}));
  const ModelFile file = TRY(open_model(model));
  if (!file.config.vision) return Error{Errc::unsupported, model + ": has no vision tower"};
  const VisionConfig& config = *file.config.vision;
  WeightLoader loader(*device);
  const VisionTower tower = TRY(VisionTower::load(file.weights.vision, config, loader));
  const double memory = TRY(memory_rate(*device));
  std::printf("%s, %s, the tower of %s\n", machine_name().c_str(), device->name().c_str(), file.config.name.c_str());
  for (const int patches : sizes) {
    if (patches < 4 || patches % 4 != 0) {
      return Error{Errc::bad_request, fmt::format("--patches: expected a multiple of 4, got {}", patches)};
    }
    EncodedRecord record;
    record.media.push_back(make_image(patches, config));
    const EncodedRecord* records[] = {&record};
    const std::int64_t first_tokens[] = {0};
    DeviceTables tables(*device);
    VisionPacking packing(config, *device);
    const VisionBatch batch = TRY(pack_vision(records, first_tokens, config, packing, tables));
    Arena arena(*device);
    TRY(arena.reset(VisionScratch::bytes(config, patches, device->activation_dtype())));
    const VisionScratch scratch = VisionScratch::take(config, patches, device->activation_dtype(), arena);
    OpTimes times;
    double peak = 0;
    const double seconds = time_beside_peak(
        settings,
        [&] {
          times.clear();
          TimedPass pass(device->begin(), *device, times);
          tower.forward(pass, batch, scratch);
          (void)pass.finish();
        },
        peak);
    double flops = 0;
    for (const auto& [name, time] : times) flops += time.flops;
    std::printf("\n%d patches: %.1f ms, %.1f GFLOP/s of a peak of %.1f: %.1f%%\n", patches, seconds * 1e3,
                flops / seconds / 1e9, peak / 1e9, 100 * flops / seconds / peak);
    print_op_times(times, seconds, {.flops = peak, .bytes = memory});
    std::fflush(stdout);
  }
  return {};
}

}  // namespace

int bench_vision(const Settings& settings, const std::string& model, const std::vector<int>& patches) {
  const Status status = run(settings, model, patches);
  if (status) return 0;
  std::fprintf(stderr, "clef-bench: %s\n", status.error().message.c_str());
  return 1;
}

}  // namespace clef::bench
