// The GPU's memory: the plan holds, and where there is no room it is said, and nothing else happens.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backend/open.h"
#include "engine/engine.h"
#include "model/memory_plan.h"
#include "model/network.h"
#include "skip.h"
#include "support/golden.h"

namespace clef {
namespace {

std::unique_ptr<Device> open_gpu(const std::string& f32_layers = {}) {
  auto device = open_device({.device = "cuda", .f32_layers = f32_layers});
  return device ? std::move(device).value() : nullptr;
}

// Why there is none; empty where there is one.
std::string no_gpu() {
  const auto gpus = list_gpus();
  if (!gpus) return gpus.error().message;
  return !gpus->empty() && gpus->front().is_usable ? "" : "no GPU of this machine can be used";
}

// What earlier passes of this process gave back stays in the driver's pool; here it would hide what a pass takes.
void empty_pool() {
  cudaMemPool_t pool = nullptr;
  cudaDeviceSynchronize();
  if (cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess) cudaMemPoolTrimTo(pool, 0);
}

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return free;
}

// Holds what is free, but for `spare` bytes.
class Hog {
 public:
  explicit Hog(std::size_t spare) {
    empty_pool();
    for (std::size_t piece = std::size_t{1} << 32; piece >= std::size_t{1} << 20; piece /= 2) {
      void* memory = nullptr;
      while (free_bytes() > spare + piece && cudaMalloc(&memory, piece) == cudaSuccess) held_.push_back(memory);
      (void)cudaGetLastError();
    }
  }
  ~Hog() {
    for (void* memory : held_) cudaFree(memory);
  }
  Hog(const Hog&) = delete;
  Hog& operator=(const Hog&) = delete;

 private:
  std::vector<void*> held_;
};

std::string request(std::size_t words) {
  std::string state;
  for (std::size_t i = 0; i < words; ++i) state += "word" + std::to_string(i % 97) + " ";
  return R"({"model":"clef","state":")" + state + R"(","questions":{"a":{"type":"noul"}}})";
}

TEST(CudaMemory, APassTakesNoMoreThanThePlanSays) {
  SKIP_BECAUSE(no_gpu());
  const auto file = open_model(test::test_data_path("clef-tiny"));
  ASSERT_TRUE(file) << file.error().message;
  for (const std::string f32_layers : {"", "0", "all"}) {
    for (const std::int64_t tokens : {1000, 16384, 40000}) {
      const bool has_token_table = tokens != 40000;
      auto device = open_gpu(f32_layers);
      ASSERT_NE(device, nullptr);
      empty_pool();
      const std::size_t before = free_bytes();
      const auto plan = plan_memory(*file, *device, tokens, has_token_table);
      ASSERT_TRUE(plan) << plan.error().message;
      device->expect_weights(plan->weights);
      auto network = Network::load(*file, *device, has_token_table);
      ASSERT_TRUE(network) << network.error().message;
      const EncodedRecord record = fullest_record(tokens);
      const EncodedRecord* const records[] = {&record};
      const auto decisions = (*network)->run(records);
      ASSERT_TRUE(decisions) << decisions.error().message;
      const std::size_t after = free_bytes();
      const std::size_t taken = before > after ? before - after : 0;
      EXPECT_LE(taken, plan->total()) << describe(*plan) << ", f32 layers '" << f32_layers << "'";
      std::printf("  %s: taken %.2f GB\n", describe(*plan).c_str(), static_cast<double>(taken) / 1e9);
    }
  }
}

TEST(CudaMemory, AModelThatDoesNotFitIsRefusedBeforeItIsLoaded) {
  SKIP_BECAUSE(no_gpu());
  auto device = open_gpu();
  ASSERT_NE(device, nullptr);
  const Hog hog(std::size_t{100} << 20);
  const auto engine = Engine::open(test::test_data_path("clef-tiny"), std::move(device), {});
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Errc::out_of_memory);
  EXPECT_NE(engine.error().message.find("16384 tokens in flight"), std::string::npos) << engine.error().message;
}

TEST(CudaMemory, APassWithoutRoomFailsAloneAndTheNextIsAnsweredAsBefore) {
  SKIP_BECAUSE(no_gpu());
  auto opened = Engine::open(test::test_data_path("clef-tiny"), open_gpu(), {});
  ASSERT_TRUE(opened) << opened.error().message;
  const auto engine = std::move(opened).value();
  const std::string small = request(20), large = request(3000);
  const auto before = engine->answer(small);
  ASSERT_TRUE(before) << before.error().message;
  {
    const Hog hog(std::size_t{32} << 20);
    const auto answers = engine->answer_batch(std::vector<std::string>{small, large});
    ASSERT_EQ(answers.size(), 2U);
    ASSERT_FALSE(answers[1]);
    EXPECT_EQ(answers[1].error().code, Errc::out_of_memory) << answers[1].error().message;
    std::printf("  %s\n", answers[1].error().message.c_str());
  }
  const auto after = engine->answer_batch(std::vector<std::string>{small, large});
  ASSERT_TRUE(after[0]) << after[0].error().message;
  ASSERT_TRUE(after[1]) << after[1].error().message;
  EXPECT_EQ(after[0]->decisions.logits, before->decisions.logits);
}

}  // namespace
}  // namespace clef
