// The plan against what the network then asks of a device: one of the test's own that takes nothing and counts.
#include "model/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "model/network.h"
#include "support/golden.h"

namespace clef {
namespace {

class Idle final : public Pass {
 public:
  Status finish() override { return {}; }

 private:
  void encode(const Op& /*op*/) override {}
};

// Eight bytes a weight, three where it may meet a low part, 1000 beside the ops of a pass.
class Ledger final : public Device {
 public:
  Ledger(DType activation, std::optional<std::int64_t> precise, bool has_low_parts = false)
      : activation_(activation), precise_(precise), has_low_parts_(has_low_parts) {}
  std::string name() const override { return "ledger"; }
  DType activation_dtype() const override { return activation_; }
  std::optional<std::int64_t> precise_layers() const override { return precise_; }
  bool has_low_parts() const override { return has_low_parts_; }
  std::optional<DeviceMemory> memory() const override { return stated; }
  std::size_t adopted_bytes(const Tensor& shape) const override {
    return 8 * static_cast<std::size_t>(shape.rows * shape.cols);
  }
  std::size_t adopted_low_bytes(const Tensor& weight) const override {
    return 3 * static_cast<std::size_t>(weight.rows * weight.cols);
  }
  std::unique_ptr<Pass> rehearse(std::size_t& bytes) override {
    bytes = std::max<std::size_t>(bytes, 1000);
    return std::make_unique<Idle>();
  }
  Result<std::unique_ptr<Buffer>> allocate(std::size_t bytes) override {
    held += bytes;
    most = std::max(most, held);
    return std::unique_ptr<Buffer>(std::make_unique<Held>(bytes, *this));
  }
  Result<Tensor> adopt(std::span<const std::byte> mapped, const Tensor& shape) override {
    EXPECT_EQ(mapped.size(), static_cast<std::size_t>(shape.rows * shape.cols) * size_of(shape.dtype));
    weights += adopted_bytes(shape);
    Tensor tensor = shape;
    tensor.buffer = &nothing_;
    tensor.stride = shape.cols;
    return tensor;
  }
  Status adopt_low(const Tensor& weight) override {
    low_weights += adopted_low_bytes(weight);
    return {};
  }
  Status upload(const Tensor& /*to*/, std::span<const std::byte> /*bytes*/) override { return {}; }
  Status download(std::span<std::byte> bytes, const Tensor& /*from*/) override {
    std::memset(bytes.data(), fill, bytes.size());
    return {};
  }
  std::unique_ptr<Pass> begin() override { return std::make_unique<Idle>(); }

  std::size_t weights = 0, low_weights = 0, held = 0, most = 0;
  int fill = 0;  // of every byte that is read back
  std::optional<DeviceMemory> stated;

 private:
  struct Held final : Buffer {
    Held(std::size_t size, Ledger& ledger_) : Buffer(nullptr, size), ledger(ledger_) {}
    ~Held() override { ledger.held -= bytes(); }
    Ledger& ledger;
  };
  Buffer nothing_{nullptr, 0};
  DType activation_;
  std::optional<std::int64_t> precise_;
  bool has_low_parts_;
};

struct Taken {
  std::size_t weights = 0, tables = 0, activations = 0;
};

// `fill` 0xff makes every logit NaN, and so has a record run again in f32.
Taken take(const ModelFile& file, const Ledger& like, const EncodedRecord& record, int fill = 0,
           bool has_token_table = false) {
  Ledger ledger(like.activation_dtype(), like.precise_layers(), like.has_low_parts());
  ledger.fill = fill;
  auto network = Network::load(file, ledger, has_token_table);
  if (!network) throw std::runtime_error(network.error().message);
  const std::size_t tables = ledger.held;
  const EncodedRecord* const records[] = {&record};
  const auto decisions = (*network)->run(records);
  if (!decisions) throw std::runtime_error(decisions.error().message);
  return {.weights = ledger.weights + ledger.low_weights, .tables = tables, .activations = ledger.most - tables};
}

EncodedRecord with_question(std::int64_t tokens) {
  EncodedRecord record;
  record.input_ids.assign(static_cast<std::size_t>(tokens), 1);
  EncodedQuestion& question = record.questions.emplace_back();
  question.span = {.first = 0, .count = 2};
  question.option_spans = {{.first = 2, .count = 1}, {.first = 3, .count = 1}};
  return record;
}

// All its tokens but a few are one image's.
EncodedRecord picture(std::int64_t tokens, const VisionConfig& config) {
  EncodedRecord record = with_question(tokens);
  EncodedMedia& image = record.media.emplace_back();
  const std::int64_t merged = tokens - 10;
  image.grid_h = 2;
  image.grid_w = 2 * merged;
  image.token_spans = {{.first = 10, .count = merged}};
  image.patches.assign(static_cast<std::size_t>(4 * merged * config.patch_width()), 0);
  return record;
}

class MemoryPlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_model(test::test_data_path("clef-tiny"));
    ASSERT_TRUE(opened) << opened.error().message;
    file = std::move(opened).value();
  }
  ModelFile file;
};

TEST_F(MemoryPlanTest, IsWhatTheFullestPassTakes) {
  file.config.vision.reset();
  for (const std::int64_t tokens : {1, 100, 1000, 5000}) {
    Ledger ledger(DType::f16, 4, tokens != 1000);
    const auto plan = plan_memory(file, ledger, tokens);
    ASSERT_TRUE(plan) << plan.error().message;
    const Taken taken = take(file, ledger, fullest_record(tokens));
    EXPECT_EQ(plan->tokens, tokens);
    EXPECT_EQ(plan->weights, taken.weights);
    EXPECT_EQ(plan->tables, taken.tables);
    EXPECT_EQ(plan->activations, taken.activations);
    EXPECT_EQ(plan->workspace, 1000U);
    EXPECT_EQ(ledger.most, 0U) << "planning takes nothing";
  }
}

// What making it takes beside is counted too: for few tokens it is more than a pass.
TEST_F(MemoryPlanTest, HasATokenTableIfThereIsRoom) {
  file.config.vision.reset();
  const TextConfig& config = file.config.text;
  const auto row = static_cast<std::size_t>(config.conv_width() + config.value_width());
  for (const std::int64_t tokens : {100, 5000}) {
    for (const std::int64_t precise : {0, 4}) {
      Ledger ledger(DType::f16, precise, true);
      const auto plan = plan_memory(file, ledger, tokens, true), plain = plan_memory(file, ledger, tokens);
      ASSERT_TRUE(plan && plain);
      const std::size_t element = precise == 0 ? 2 : 4;
      const auto gates = static_cast<std::size_t>(2 * config.linear_num_value_heads) * 4;
      EXPECT_GE(plan->token_table, static_cast<std::size_t>(config.vocab_size) * (row * element + gates));
      EXPECT_EQ(plain->token_table, 0U);
      EXPECT_EQ(plan->tables, plain->tables);
      const Taken taken = take(file, ledger, fullest_record(tokens), 0, true);
      EXPECT_EQ(plan->tables + plan->token_table, taken.tables);
      EXPECT_EQ(plan->activations, taken.activations);
      // A record that is run again in f32 finds no rows of its kind in the table.
      EXPECT_LE(take(file, ledger, with_question(tokens), 0xff, true).activations, plan->activations);

      const auto unsure = plan_memory_that_fits(file, ledger, tokens, true);
      ASSERT_TRUE(unsure);
      EXPECT_EQ(unsure->token_table, 0U) << "a device that cannot tell what it has";
      const auto fitting = [&](std::size_t free, bool wants = true) {
        ledger.stated = DeviceMemory{.free_bytes = free, .total_bytes = plan->total(), .is_firm = true};
        return plan_memory_that_fits(file, ledger, tokens, wants);
      };
      ASSERT_TRUE(fitting(plan->total()) && fitting(plan->total() - 1) && fitting(plan->total(), false));
      EXPECT_GT(fitting(plan->total())->token_table, 0U);
      EXPECT_EQ(fitting(plan->total() - 1)->token_table, 0U) << "it is left out first";
      EXPECT_EQ(fitting(plan->total(), false)->token_table, 0U);
      EXPECT_FALSE(fitting(plain->total() - 1));
      EXPECT_NE(describe(*plan).find(", token table "), std::string::npos);
    }
  }
}

TEST_F(MemoryPlanTest, CoversTextAndPicturesInEveryPrecision) {
  constexpr std::int64_t kTokens = 1200;
  for (const auto& [precise, has_low_parts] : {std::pair(0, false), std::pair(4, false), std::pair(4, true)}) {
    for (const DType activation : {DType::f16, DType::f32}) {
      Ledger ledger(activation, precise, has_low_parts);
      const auto plan = plan_memory(file, ledger, kTokens);
      ASSERT_TRUE(plan) << plan.error().message;
      for (const int fill : {0, 0xff}) {
        EXPECT_LE(take(file, ledger, with_question(kTokens), fill).activations, plan->activations);
        EXPECT_LE(take(file, ledger, picture(kTokens, *file.config.vision), fill).activations, plan->activations);
      }
    }
  }
}

// Those of Gated DeltaNet and of the MLP, in the precise layers alone.
TEST_F(MemoryPlanTest, CountsTheWeightsThatMeetALowPart) {
  const auto low_bytes = [&](std::int64_t precise, bool has_low_parts) {
    Ledger with(DType::f16, precise, has_low_parts), without(DType::f16, 0);
    const auto plan = plan_memory(file, with, 100), plain = plan_memory(file, without, 100);
    EXPECT_TRUE(plan && plain);
    return plan->weights - plain->weights;
  };
  const TextConfig& config = file.config.text;
  const std::int64_t mlp = 3 * config.intermediate_size * config.hidden_size;
  const std::int64_t mixer =
      (config.conv_width() + 2 * config.value_width() + 2 * config.linear_num_value_heads) * config.hidden_size;
  EXPECT_EQ(low_bytes(4, false), 0U);
  EXPECT_EQ(low_bytes(0, true), 0U);
  EXPECT_EQ(low_bytes(1, true), static_cast<std::size_t>(3 * (mlp + mixer)));
}

TEST_F(MemoryPlanTest, GrowsWithTheTokens) {
  Ledger ledger(DType::f16, 4);
  const auto small = plan_memory(file, ledger, 1000), large = plan_memory(file, ledger, 10000);
  ASSERT_TRUE(small && large);
  const double ratio = static_cast<double>(large->activations) / static_cast<double>(small->activations);
  EXPECT_GT(ratio, 9.5);
  EXPECT_LT(ratio, 10.5);
}

TEST(CheckFits, RefusesWhatAFirmDeviceHasNoRoomFor) {
  const MemoryPlan plan{
      .tokens = 1000, .weights = 2'000'000'000, .tables = 0, .activations = 3'000'000'000, .workspace = 1'000'000'000};
  Ledger ledger(DType::f16, 4);
  EXPECT_TRUE(check_fits(plan, ledger)) << "a device that cannot tell is tried";
  ledger.stated = DeviceMemory{.free_bytes = 6'000'000'000, .total_bytes = 8'000'000'000, .is_firm = true};
  EXPECT_TRUE(check_fits(plan, ledger));
  ledger.stated->free_bytes = 5'000'000'000;
  const Status refused = check_fits(plan, ledger);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::out_of_memory);
  EXPECT_EQ(refused.error().message,
            "ledger: 1000 tokens in flight: 6.00 GB (weights 2.00, activations 3.00, ops 1.00); 5.00 of 8.00 GB are "
            "free: about 750 tokens would fit (--max-tokens-in-flight)");
  ledger.stated->free_bytes = 1'000'000'000;
  EXPECT_NE(check_fits(plan, ledger).error().message.find("the weights alone do not fit"), std::string::npos);
  ledger.stated->is_firm = false;
  EXPECT_TRUE(check_fits(plan, ledger)) << "a host may still make room";
}

}  // namespace
}  // namespace clef
