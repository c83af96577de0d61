#include "clef/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "clef/version.h"
#include "model/hub_cache.h"

namespace clef::cli {

namespace {

// Room beside the weights: activations of a full context, the process, the system.
constexpr double kCpuSpareBytes = 2e9, kGpuSpareBytes = 3e9;
// A pass reaches this part of what one product does: attention, DeltaNet and norms take the rest.
constexpr double kPassShare = 0.7;

// Multiplications and additions of the decoder's products for one token.
struct Shapes {
  double hidden, ffn, attention_layers, attention_rows, attention_width, linear_layers, linear_rows, linear_width;
};
constexpr double flops_per_token(const Shapes& s) {
  const double layers = s.attention_layers + s.linear_layers;
  return 2 * s.hidden *
         (layers * 3 * s.ffn + s.attention_layers * (s.attention_rows + s.attention_width) +
          s.linear_layers * (s.linear_rows + s.linear_width));
}

std::string gigabytes(double bytes) { return fmt::format("{:.1f} GB", bytes / 1e9); }

std::string duration(double ms) {
  if (ms < 10'000) return fmt::format("{:.0f} ms", ms);
  return fmt::format("{:.0f} s", ms / 1000);
}

std::string rate(double flops) {
  return flops >= 1e12 ? fmt::format("{:.0f} TFLOP/s", flops / 1e12) : fmt::format("{:.0f} GFLOP/s", flops / 1e9);
}

double rate_of(const std::vector<std::pair<std::string, double>>& rates, std::string_view device) {
  for (const auto& [name, value] : rates) {
    if (name == device) return value;
  }
  return 0;
}

Json number(double value) { return Json(std::round(value)); }

}  // namespace

const std::vector<ModelNeeds>& model_needs() {
  // The releases' config.json: Clef-Flash has 8 + 24 layers, Clef 16 + 48.
  static const std::vector<ModelNeeds> needs = {
      {"clef-flash", "Cloudflare/clef-flash", 19.1e9, 18.8e9,
       flops_per_token({4096, 12288, 8, 10240, 4096, 24, 12352, 4096})},
      {"clef", "Cloudflare/clef", 55.0e9, 54.7e9, flops_per_token({5120, 17408, 16, 14336, 6144, 48, 16480, 6144})},
      {"clef-omni", "Cloudflare/clef-omni", 70.5e9, 63.7e9, 0, false},
  };
  return needs;
}

std::vector<Advice> advise(const Machine& machine, const std::vector<std::pair<std::string, double>>& rates) {
  std::vector<Advice> all;
  for (const ModelNeeds& model : model_needs()) {
    Advice advice;
    advice.model = &model;
    if (!model.is_served) {
      advice.text = "not served by this version";
      all.push_back(std::move(advice));
      continue;
    }
    for (const GpuInfo& gpu : machine.gpus) {
      if (advice.device.empty() && gpu.is_usable &&
          static_cast<double>(gpu.free_bytes) >= model.weight_bytes + kGpuSpareBytes) {
        advice.device = gpu.device;
      }
    }
    const bool fits_memory = static_cast<double>(machine.available_bytes) >= model.weight_bytes + kCpuSpareBytes;
    if (advice.device.empty() && fits_memory) advice.device = "cpu";
    if (const double flops = rate_of(rates, advice.device); flops > 0) {
      advice.ms_per_1000 = 1000 * model.flops_per_token / (flops * kPassShare) * 1000;
    }
    if (!advice.device.empty()) {
      advice.text = fmt::format("runs on {}", advice.device);
      if (advice.ms_per_1000 > 0)
        advice.text += fmt::format(", about {} for 1,000 tokens", duration(advice.ms_per_1000));
    } else {
      advice.text = fmt::format(
          "too large: {} of memory needed, {} available; it would be read from the disk again for "
          "every request",
          gigabytes(model.weight_bytes + kCpuSpareBytes), gigabytes(static_cast<double>(machine.available_bytes)));
    }
    all.push_back(std::move(advice));
  }
  return all;
}

std::string to_text(const Report& report) {
  const Machine& machine = report.machine;
  std::string out = version_text() + "\n";
  out += fmt::format("CPU       {}, {} for this process\n", machine.cpu_name,
                     machine.num_cpus == 1 ? "1 CPU" : fmt::format("{} CPUs", machine.num_cpus));
  out +=
      fmt::format("          features: {}\n",
                  machine.cpu_features.empty() ? "unknown" : fmt::format("{}", fmt::join(machine.cpu_features, " ")));
  out += fmt::format(
      "          kernels: {} will run{}\n", machine.cpu_kernels,
      machine.other_kernels.empty() ? "" : fmt::format(" ({} could)", fmt::join(machine.other_kernels, ", ")));
  for (const GpuInfo& gpu : machine.gpus) {
    out += fmt::format("GPU       {}: {}, {}, {} of {} free{}\n", gpu.device, gpu.name, gpu.architecture,
                       gigabytes(static_cast<double>(gpu.free_bytes)), gigabytes(static_cast<double>(gpu.total_bytes)),
                       gpu.is_usable ? "" : "; too old to be used");
  }
  if (machine.gpus.empty()) out += fmt::format("GPU       none: {}\n", machine.no_gpu);
  out += fmt::format("          NVIDIA driver: {}\n",
                     machine.nvidia_driver ? "for CUDA " + *machine.nvidia_driver : "not found");
  for (const auto& [device, flops] : report.rates) {
    out += fmt::format("Measured  {}: one matrix product runs at {}\n", device, rate(flops));
  }
  out += fmt::format("Memory    {}, {} available\n", gigabytes(static_cast<double>(machine.memory_bytes)),
                     gigabytes(static_cast<double>(machine.available_bytes)));
  for (const auto& [folder, bytes] : report.space) {
    out += fmt::format("Disk      {} free in {}\n", gigabytes(static_cast<double>(bytes)), folder);
  }
  out += "\nModel       download   weights    here\n";
  for (const Advice& advice : advise(machine, report.rates)) {
    out += fmt::format("{:<11} {:>8}   {:>7}    {}\n", advice.model->name, gigabytes(advice.model->download_bytes),
                       gigabytes(advice.model->weight_bytes), advice.text);
    const auto found = find_model(std::string(advice.model->repo), report.hub_cache);
    if (found) out += fmt::format("            there already: clef -m {}\n", advice.model->repo);
  }
  out += "\nFetch one with `clef-tool fetch MODEL`; times are rough, `clef-bench forward -m MODEL` measures.\n";
  return out;
}

Json to_json(const Report& report) {
  const Machine& machine = report.machine;
  const auto strings = [](const std::vector<std::string>& texts) {
    Json::Array array;
    for (const std::string& text : texts) array.emplace_back(text);
    return Json(std::move(array));
  };
  const auto bytes = [](std::uint64_t count) { return Json(static_cast<std::int64_t>(count)); };
  Json::Array gpus, models, space;
  for (const GpuInfo& gpu : machine.gpus) {
    gpus.emplace_back(Json::Object{{"device", gpu.device},
                                   {"name", gpu.name},
                                   {"architecture", gpu.architecture},
                                   {"free_bytes", bytes(gpu.free_bytes)},
                                   {"total_bytes", bytes(gpu.total_bytes)},
                                   {"usable", gpu.is_usable}});
  }
  for (const Advice& advice : advise(machine, report.rates)) {
    const auto found = find_model(std::string(advice.model->repo), report.hub_cache);
    models.emplace_back(
        Json::Object{{"name", std::string(advice.model->name)},
                     {"repo", std::string(advice.model->repo)},
                     {"download_bytes", number(advice.model->download_bytes)},
                     {"weight_bytes", number(advice.model->weight_bytes)},
                     {"device", advice.device.empty() ? Json() : Json(advice.device)},
                     {"ms_per_1000_tokens", advice.ms_per_1000 > 0 ? number(advice.ms_per_1000) : Json()},
                     {"path", found ? Json(found->string()) : Json()},
                     {"text", advice.text}});
  }
  for (const auto& [folder, free] : report.space) {
    space.emplace_back(Json::Object{{"folder", folder}, {"free_bytes", bytes(free)}});
  }
  Json::Object rates;
  for (const auto& [device, flops] : report.rates) rates.emplace_back(device, number(flops));
  return Json::Object{{"version", version_text()},
                      {"cpu", Json::Object{{"name", machine.cpu_name},
                                           {"cpus", machine.num_cpus},
                                           {"features", strings(machine.cpu_features)},
                                           {"kernels", machine.cpu_kernels},
                                           {"other_kernels", strings(machine.other_kernels)}}},
                      {"gpus", std::move(gpus)},
                      {"no_gpu", machine.gpus.empty() ? Json(machine.no_gpu) : Json()},
                      {"nvidia_driver", machine.nvidia_driver ? Json(*machine.nvidia_driver) : Json()},
                      {"flops_per_second", std::move(rates)},
                      {"memory", Json::Object{{"bytes", bytes(machine.memory_bytes)},
                                              {"available_bytes", bytes(machine.available_bytes)}}},
                      {"disk", std::move(space)},
                      {"models", std::move(models)}};
}

Result<DoctorOptions> parse_doctor_options(const std::vector<std::string>& arguments) {
  DoctorOptions options;
  CLI::App app;
  app.set_help_flag();  // help is text of ours
  app.add_flag("-h,--help", options.help);
  app.add_flag("--json", options.json);
  app.add_flag("--no-measure{false}", options.measure);
  app.add_option("--threads", options.num_threads)->check(CLI::Range(1, 1024));
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // the order CLI11 takes
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return Error{Errc::bad_request, error.what()};
  }
  return options;
}

std::string_view doctor_help_text() {
  return R"(clef doctor - says what this machine has, which models it can run, and about how fast

Usage: clef doctor [options]

Options:
  --json               one JSON object in place of the text
  --no-measure         do not run the matrix product that the times are worked out from
  --threads N          threads, 1 to 1024 (default: one a CPU that this process may use)
  -h, --help           this text

Exit status: 0, also where no model fits; 2 for a wrong command line.
)";
}

int run_doctor(const DoctorOptions& options) {
  Report report{.machine = survey_machine(options.num_threads), .rates = {}, .hub_cache = {}, .space = {}};
  if (options.measure) {
    std::vector<std::string> devices = {"cpu"};
    for (const GpuInfo& gpu : report.machine.gpus) {
      if (gpu.is_usable) devices.push_back(gpu.device);
    }
    for (const std::string& device : devices) {
      const auto flops = measure_product(device, options.num_threads);
      if (flops) {
        report.rates.emplace_back(device, *flops);
      } else {
        std::fputs(fmt::format("clef: {}: {}\n", device, flops.error().message).c_str(), stderr);
      }
    }
  }
  report.hub_cache = hub_cache_folder([](const char* name) { return std::getenv(name); });
  for (const std::filesystem::path& folder : {std::filesystem::path("."), report.hub_cache}) {
    if (folder.empty()) continue;
    if (const auto bytes = free_space(folder))
      report.space.emplace_back(folder == "." ? "this folder" : folder.string(), *bytes);
  }
  const std::string out = options.json ? to_compact_json(to_json(report)) + "\n" : to_text(report);
  const bool is_written = std::fwrite(out.data(), 1, out.size(), stdout) == out.size() && std::fflush(stdout) == 0;
  return is_written ? 0 : 1;
}

}  // namespace clef::cli
