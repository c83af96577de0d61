// Whole requests on any device, from encoded records to decisions: alone and in batches, and what each op takes, beside
// the device's own matrix rate measured in the same run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>

#include "backend/open.h"
#include "clef-bench/bench.h"
#include "model/memory_plan.h"
#include "model/model_file.h"
#include "model/network.h"
#include "ops/cost.h"
#include "ops/decorators/timed_pass.h"

namespace clef::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTokensBesideImage = 300;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The rate of one large product, as every product of a model would like it: FLOP/s.
Result<double> matrix_rate(Device& device) {
  constexpr std::int64_t kSize = 8192;
  const bool small = device.activation_dtype() == DType::f32;  // a CPU needs seconds for the large one
  const std::int64_t n = small ? 1024 : kSize;
  std::vector<std::uint16_t> weights(static_cast<std::size_t>(n * n));
  std::mt19937 random(1);
  for (std::uint16_t& w : weights) w = static_cast<std::uint16_t>(0x3c00U + (random() & 0x80ffU));
  const Tensor w = TRY(device.adopt(std::as_bytes(std::span(weights)), {.rows = n, .cols = n, .dtype = DType::bf16}));
  Arena arena(device);
  const DType type = device.activation_dtype();
  TRY(arena.reset(2 * Arena::bytes_for(n, n, type)));
  const Tensor x = arena.take(n, n, type), y = arena.take(n, n, type);
  std::vector<std::byte> values(static_cast<std::size_t>(n * n) * size_of(type));
  for (std::size_t i = 0; i < values.size() / 2; ++i) {
    // Halves near one, of both signs; as floats their upper halves make numbers near 0.01.
    const auto half = static_cast<std::uint16_t>(0x3c00U + (random() & 0x83ffU));
    std::memcpy(values.data() + 2 * i, &half, 2);
  }
  TRY(device.upload(x, values));
  const Op product = Linear{.y = y, .x = x, .w = w, .bias = {}};
  return flops(product, device) / TRY(seconds_of(product, small ? 1 : 4, device));
}

struct Measured {
  double seconds = 0, flops = 0, product_flops = 0;
  OpTimes times;
};

Result<Measured> measure(Network& network, Device& device, std::span<const EncodedRecord* const> records, int runs,
                         std::chrono::milliseconds rest) {
  Measured result;
  struct Target {
    Device& device;
    OpTimes& times;
  } target{device, result.times};
  const auto wrap = [](std::unique_ptr<Pass> pass, void* context) -> std::unique_ptr<Pass> {
    const auto& to = *static_cast<Target*>(context);
    return std::make_unique<TimedPass>(std::move(pass), to.device, to.times);
  };
  (void)TRY(network.run(records));
  result.times.clear();
  (void)TRY(network.run(records, wrap, &target));
  std::vector<double> seconds;
  for (int run = 0; run < runs; ++run) {
    std::this_thread::sleep_for(rest);
    const auto start = Clock::now();
    const auto decisions = TRY(network.run(records));
    seconds.push_back(since(start));
    for (const auto& decision : decisions) TRY(decision);
  }
  result.seconds = median(seconds);
  for (const auto& [name, time] : result.times) result.flops += time.flops;
  return result;
}

// The most of one pass: as said, or of the longest that is asked for.
std::int64_t tokens_in_flight(const EngineBench& options) {
  if (options.max_tokens_in_flight > 0) return options.max_tokens_in_flight;
  std::int64_t most = 0;
  for (const int count : options.tokens) {
    for (const int batch : options.batches) most = std::max(most, std::int64_t{count} * batch);
  }
  for (const int count : options.patches) most = std::max(most, std::int64_t{count} / 4 + kTokensBesideImage);
  return most;
}

}  // namespace

int bench_engine(const Settings& settings, const EngineBench& options) {
  const auto run = [&]() -> Status {
    const auto device = TRY(open_device({.device = options.device,
                                         .num_threads = settings.num_threads,
                                         .cpu_kernels = settings.kernels,
                                         .f32_layers = options.f32_layers}));
    const double rate = TRY(matrix_rate(*device)), memory = TRY(memory_rate(*device));
    const ModelFile file = TRY(open_model(options.model));
    const MemoryPlan plan = TRY(plan_memory_that_fits(file, *device, tokens_in_flight(options), options.token_table));
    device->expect_weights(plan.weights);
    const auto load_start = Clock::now();
    const auto network = TRY(Network::load(file, *device, plan.token_table > 0));
    network->share_prefix(!options.whole);
    std::printf("%s, %s, loaded in %.2f s; matrix rate %.0f GFLOP/s\n", device->name().c_str(),
                file.config.name.c_str(), since(load_start), rate / 1e9);
    std::printf("memory for %s\n", describe(plan).c_str());
    if (!device->notes().empty()) std::printf("%s\n", device->notes().c_str());
    std::printf("%10s %8s %10s %12s %10s %10s\n", "tokens", "records", "ms", "tokens/s", "floor ms", "of rate");
    const auto report = [&](const std::vector<EncodedRecord>& records) -> Status {
      std::vector<const EncodedRecord*> pointers;
      std::int64_t total = 0;
      for (const EncodedRecord& record : records) {
        pointers.push_back(&record);
        total += static_cast<std::int64_t>(record.input_ids.size());
      }
      const Measured m =
          TRY(measure(*network, *device, pointers, settings.runs, std::chrono::milliseconds(options.rest_ms)));
      std::printf("%10ld %8zu %10.2f %12.0f %10.2f %9.1f%%\n", static_cast<long>(total), records.size(),
                  m.seconds * 1e3, static_cast<double>(total) / m.seconds, m.flops / rate * 1e3,
                  100 * m.flops / m.seconds / rate);
      if (options.by_op) print_op_times(m.times, m.seconds, {.flops = rate, .bytes = memory});
      std::fflush(stdout);
      return {};
    };
    for (const int count : options.tokens) {
      for (const int batch : options.batches) {
        std::vector<EncodedRecord> records;
        records.reserve(static_cast<std::size_t>(batch));
        for (int i = 0; i < batch; ++i) {
          records.push_back(make_record(count, file.config.text.vocab_size, static_cast<std::uint32_t>(i + 1)));
        }
        TRY(report(records));
      }
    }
    for (const int count : options.patches) {
      if (!file.config.vision) return Error{Errc::unsupported, options.model + ": has no vision tower"};
      TRY(report({make_image_record(count, kTokensBesideImage, *file.config.vision, file.config.text.vocab_size)}));
    }
    return {};
  };
  const Status status = run();
  if (status) return 0;
  std::fprintf(stderr, "clef-bench: %s\n", status.error().message.c_str());
  return 1;
}

}  // namespace clef::bench
