// The tokens that all prompts begin with: which of them are kept, and when they may be taken.
#include "model/known_prefix.h"

#include <gtest/gtest.h>

#include <memory>

#include "backend/cpu/cpu_device.h"
#include "model/model_file.h"
#include "model/network.h"
#include "support/golden.h"

namespace clef {
namespace {

EncodedRecord record_of(std::vector<std::int32_t> ids, std::int64_t fixed, std::int64_t schema_first) {
  EncodedRecord record;
  record.input_ids = std::move(ids);
  record.media_offset = fixed;
  record.schema_first = schema_first;
  return record;
}

std::int64_t kept_of(const std::vector<EncodedRecord>& records) {
  std::vector<const EncodedRecord*> pointers;
  for (const EncodedRecord& record : records) pointers.push_back(&record);
  return KnownPrefix::tokens_of(pointers);
}

TEST(KnownPrefix, IsWhatAllRecordsBeginWith) {
  const EncodedRecord one = record_of({1, 2, 3, 4, 5}, 3, 4);
  EXPECT_EQ(kept_of({one}), 3);
  EXPECT_EQ(kept_of({one, one}), 3);
  EXPECT_EQ(kept_of({one, record_of({1, 2, 3, 9, 9}, 3, 3)}), 3);
  EXPECT_EQ(kept_of({one, record_of({1, 2, 9, 4, 5}, 3, 4)}), 0) << "they differ within their fixed text";
  EXPECT_EQ(kept_of({one, record_of({1, 2, 3, 4, 5}, 2, 4)}), 2);
}

TEST(KnownPrefix, EndsBeforeTheSchemaAndIsBounded) {
  EXPECT_EQ(kept_of({record_of({1, 2, 3, 4, 5}, 3, 1)}), 1);
  EXPECT_EQ(kept_of({record_of({1, 2, 3}, 0, 1)}), 0);
  EncodedRecord asks = record_of({1, 2, 3, 4, 5}, 3, 4);
  EncodedQuestion& question = asks.questions.emplace_back();
  question.span = {.first = 2, .count = 1};
  question.option_spans = {{.first = 3, .count = 1}};
  EXPECT_EQ(kept_of({asks}), 2) << "a question lies there";
  question.option_spans.push_back({.first = 1, .count = 1});
  EXPECT_EQ(kept_of({asks}), 1) << "an option lies there";
  EXPECT_EQ(kept_of({record_of(std::vector<std::int32_t>(500, 1), 200, 300)}), kMostKnownTokens);
}

TEST(KnownPrefix, IsTakenByRecordsThatBeginWithItOnceItsPassHasSucceeded) {
  const auto device = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
  TextConfig config;
  config.layer_types = {LayerType::linear_attention, LayerType::full_attention};
  config.num_attention_heads = config.num_key_value_heads = 1;
  config.linear_num_key_heads = config.linear_num_value_heads = 1;
  config.head_dim = config.linear_key_head_dim = config.linear_value_head_dim = 4;
  const HeadConfig head{.hidden_size = 8, .width = 4};
  KnownPrefix prefix(*device);
  const EncodedRecord one = record_of({1, 2, 3, 4, 5}, 3, 4), other = record_of({1, 2, 9, 4, 5}, 3, 4),
                      early = record_of({1, 2, 3, 4, 5}, 3, 2);
  const EncodedRecord* both[] = {&one, &other};
  const auto is_of = [&](const EncodedRecord& record) {
    const EncodedRecord* records[] = {&record};
    return prefix.is_of(records);
  };
  EXPECT_FALSE(is_of(one));
  ASSERT_TRUE(prefix.begin(one, 3, config, head, {}));
  EXPECT_FALSE(is_of(one)) << "nothing is there yet";
  prefix.succeed();
  EXPECT_TRUE(is_of(one));
  EXPECT_FALSE(is_of(other));
  EXPECT_FALSE(is_of(early)) << "its schema begins among them";
  EXPECT_FALSE(prefix.is_of(both));
  EXPECT_EQ(prefix.rows().layers[0].qkv.rows, 3);
  EXPECT_FALSE(prefix.rows().layers[0].kv);
  EXPECT_EQ(prefix.rows().layers[1].kv.cols, 8);
  ASSERT_TRUE(prefix.begin(other, 2, config, head, {}));
  EXPECT_FALSE(is_of(one)) << "a pass that may fail is about to overwrite it";
}

// Counts the tokens that passes compute.
class CountingPass final : public Pass {
 public:
  CountingPass(std::unique_ptr<Pass> pass, std::vector<std::int64_t>& tokens)
      : pass_(std::move(pass)), tokens_(tokens) {}
  Status finish() override { return pass_->finish(); }

 private:
  void encode(const Op& op) override {
    if (const auto* embed = std::get_if<Embed>(&op)) tokens_.push_back(embed->y.rows);
    pass_->run(op);
  }
  std::unique_ptr<Pass> pass_;
  std::vector<std::int64_t>& tokens_;
};

// A record of so many tokens, the first `fixed` of them a prompt's fixed text, that ends with a question.
EncodedRecord question_behind(std::int64_t fixed, std::int64_t tokens) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 7 % 200);
  EncodedRecord record = record_of(std::move(ids), fixed, tokens - 40);
  EncodedQuestion& question = record.questions.emplace_back();
  question.span = {.first = tokens - 38, .count = 3};
  question.option_spans = {{.first = tokens - 30, .count = 4}, {.first = tokens - 20, .count = 5}};
  return record;
}

TEST(KnownPrefix, IsNotComputedAgain) {
  const auto file = open_model(test::test_data_path("clef-tiny"));
  ASSERT_TRUE(file) << file.error().message;
  const auto device = std::move(open_cpu_device({.num_threads = 2})).value();
  auto network = std::move(Network::load(*file, *device)).value();
  const EncodedRecord one = question_behind(4, 120), longer = question_behind(4, 257);
  EncodedRecord other = one;
  other.input_ids[2] = 3;
  std::vector<std::int64_t> tokens;
  const auto run = [&](const std::vector<const EncodedRecord*>& records) {
    const auto count = [](std::unique_ptr<Pass> pass, void* context) -> std::unique_ptr<Pass> {
      return std::make_unique<CountingPass>(std::move(pass), *static_cast<std::vector<std::int64_t>*>(context));
    };
    EXPECT_TRUE(network->run(records, count, &tokens));
  };
  run({&one});
  run({&one});
  run({&one, &one});
  run({&longer});
  run({&one});
  run({&other});
  run({&other});
  run({&one, &other});
  network->share_prefix(false);
  run({&other});
  EXPECT_EQ(tokens, (std::vector<std::int64_t>{120, 116, 232, 253, 116, 120, 116, 240, 120}));
}

// Computes nothing, and fails.
class LostPass final : public Pass {
 public:
  Status finish() override { return Error{Errc::device, "a launch failed"}; }

 private:
  void encode(const Op& /*op*/) override {}
};

// What a failed pass left is not taken: later passes have the bits of a network whose passes all succeed.
TEST(KnownPrefix, OfAFailedPassIsComputedAgain) {
  const auto file = open_model(test::test_data_path("clef-tiny"));
  ASSERT_TRUE(file) << file.error().message;
  const EncodedRecord record = question_behind(36, 120);
  const EncodedRecord* records[] = {&record};
  const auto logits = [&](bool fails_first) {
    const auto device = std::move(open_cpu_device({.num_threads = 2})).value();
    auto network = std::move(Network::load(*file, *device)).value();
    if (fails_first) {
      const auto lose = [](std::unique_ptr<Pass>, void*) -> std::unique_ptr<Pass> {
        return std::make_unique<LostPass>();
      };
      EXPECT_FALSE(network->run(records, lose, nullptr));
    }
    std::vector<std::vector<std::vector<float>>> all;
    for (int i = 0; i < 3; ++i) {
      const auto decisions = network->run(records);
      EXPECT_TRUE(decisions && decisions->front());
      if (decisions && decisions->front()) all.push_back(decisions->front()->logits);
    }
    network->share_prefix(false);
    const auto whole = network->run(records);
    EXPECT_TRUE(whole && whole->front());
    if (whole && whole->front()) all.push_back(whole->front()->logits);
    return all;
  };
  const auto expected = logits(false);
  ASSERT_EQ(expected.size(), 4);
  for (const auto& one : expected) EXPECT_EQ(one, expected.back()) << "known tokens change bits";
  EXPECT_EQ(logits(true), expected);
}

}  // namespace
}  // namespace clef
