#include "clef/doctor.h"

#include <gtest/gtest.h>

namespace clef::cli {
namespace {

Machine machine(double available_bytes) {
  Machine m;
  m.cpu_name = "Some CPU";
  m.num_cpus = 8;
  m.cpu_kernels = "avx2";
  m.memory_bytes = m.available_bytes = static_cast<std::uint64_t>(available_bytes);
  m.no_gpu = "built without CUDA";
  return m;
}

const Advice& about(const std::vector<Advice>& all, std::string_view name) {
  for (const Advice& advice : all) {
    if (advice.model->name == name) return advice;
  }
  throw std::runtime_error("no such model");
}

// docs/speed.md's bounds: 346 tokens of Clef-Flash are 4.8 TFLOP, of Clef 16.9.
TEST(Doctor, CountsTheWorkOfAToken) {
  EXPECT_NEAR(model_needs()[0].flops_per_token * 346, 4.8e12, 0.1e12);
  EXPECT_NEAR(model_needs()[1].flops_per_token * 346, 16.9e12, 0.2e12);
}

TEST(Doctor, PrefersAGpuWithRoomThenTheProcessor) {
  Machine m = machine(64e9);
  EXPECT_EQ(about(advise(m, {}), "clef-flash").device, "cpu");
  EXPECT_EQ(about(advise(m, {}), "clef").device, "cpu");
  m.gpus = {{.device = "cuda:0",
             .name = "G",
             .architecture = "sm_90",
             .free_bytes = 24'000'000'000,
             .total_bytes = 24'000'000'000,
             .is_usable = true}};
  EXPECT_EQ(about(advise(m, {}), "clef-flash").device, "cuda:0");
  EXPECT_EQ(about(advise(m, {}), "clef").device, "cpu");
  m.gpus[0].is_usable = false;
  EXPECT_EQ(about(advise(m, {}), "clef-flash").device, "cpu");
}

TEST(Doctor, SaysWhereAModelDoesNotFit) {
  const auto all = advise(machine(16e9), {});
  EXPECT_EQ(about(all, "clef-flash").device, "");
  EXPECT_NE(about(all, "clef-flash").text.find("20.8 GB of memory needed, 16.0 GB available"), std::string::npos);
}

TEST(Doctor, WorksOutTimesFromTheMeasuredRate) {
  const auto all = advise(machine(64e9), {{"cpu", 1e12}});
  // 13.9 TFLOP at 0.7 of 1 TFLOP/s
  EXPECT_NEAR(about(all, "clef-flash").ms_per_1000, 19'800, 300);
  EXPECT_NE(about(all, "clef-flash").text.find("runs on cpu, about 20 s for 1,000 tokens"), std::string::npos);
}

TEST(Doctor, ReportsThisMachine) {
  const Machine here = survey_machine(0);
  EXPECT_GE(here.num_cpus, 1);
  EXPECT_FALSE(here.cpu_kernels.empty());
  EXPECT_GT(here.memory_bytes, 1U << 20);
  EXPECT_TRUE(!here.gpus.empty() || !here.no_gpu.empty());
  const auto flops = measure_product("cpu", 1);
  ASSERT_TRUE(flops) << flops.error().message;
  EXPECT_GT(*flops, 1e6);
}

TEST(Doctor, TextAndJsonSayTheSame) {
  const Report report{
      .machine = machine(64e9), .rates = {{"cpu", 1e12}}, .hub_cache = {}, .space = {{"here", 5'000'000'000}}};
  const std::string text = to_text(report);
  for (const char* part : {"Some CPU, 8 CPUs", "kernels: avx2 will run", "GPU       none: built without CUDA",
                           "one matrix product runs at 1 TFLOP/s", "5.0 GB free in here", "clef-flash", "clef-omni"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const Json json = to_json(report);
  EXPECT_EQ(*json.find("cpu")->find("kernels"), Json("avx2"));
  EXPECT_EQ(json.find("models")->if_array()->size(), 3U);
  EXPECT_EQ(*json.find("models")->if_array()->front().find("device"), Json("cpu"));
  EXPECT_EQ(*json.find("no_gpu"), Json("built without CUDA"));
  EXPECT_TRUE(parse_json(to_compact_json(json)));
}

TEST(Doctor, OptionsAreChecked) {
  EXPECT_TRUE(parse_doctor_options({"--json"})->json);
  EXPECT_TRUE(parse_doctor_options({})->measure);
  EXPECT_FALSE(parse_doctor_options({"--no-measure"})->measure);
  EXPECT_FALSE(parse_doctor_options({"--threads", "0"}));
  EXPECT_FALSE(parse_doctor_options({"--jsno"}));
  EXPECT_FALSE(parse_doctor_options({"file"}));
}

}  // namespace
}  // namespace clef::cli
