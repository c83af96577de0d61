// `clef doctor`: what this machine has, which models it can run, and about how fast.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "clef/machine.h"
#include "text/json.h"

namespace clef::cli {

struct DoctorOptions {
  bool json = false;
  bool measure = true;
  int num_threads = 0;
  bool help = false;
};

Result<DoctorOptions> parse_doctor_options(const std::vector<std::string>& arguments);
std::string_view doctor_help_text();

// A release, and what its shapes make of it.
struct ModelNeeds {
  std::string_view name, repo;
  double download_bytes = 0;
  double weight_bytes = 0;     // mapped, or copied to a GPU
  double flops_per_token = 0;  // of the products, which are nearly all
  bool is_served = true;
};
const std::vector<ModelNeeds>& model_needs();

struct Advice {
  const ModelNeeds* model = nullptr;
  std::string device;      // where it would run; empty: nowhere
  double ms_per_1000 = 0;  // of 1,000 tokens; 0: not measured
  std::string text;        // for people
};
// `rates`: floating point operations a second by device, of those that were measured.
std::vector<Advice> advise(const Machine& machine, const std::vector<std::pair<std::string, double>>& rates);

int run_doctor(const DoctorOptions& options);

// For tests: the report of a machine.
struct Report {
  Machine machine;
  std::vector<std::pair<std::string, double>> rates;
  std::filesystem::path hub_cache;
  std::vector<std::pair<std::string, std::uint64_t>> space;  // folder, bytes free
};
std::string to_text(const Report& report);
Json to_json(const Report& report);

}  // namespace clef::cli
