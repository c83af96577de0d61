// What the first layer makes of every token, looked up: which passes do so, and that no bit tells.
#include "model/token_table.h"

#include <gtest/gtest.h>

#include <memory>

#include "backend/cpu/cpu_device.h"
#include "model/model_file.h"
#include "model/network.h"
#include "support/failing_device.h"
#include "support/golden.h"

namespace clef {
namespace {

// Counts what passes look up and what they project.
struct Counts {
  int looked_up = 0, projected = 0;
  bool operator==(const Counts&) const = default;
};
class CountingPass final : public Pass {
 public:
  CountingPass(std::unique_ptr<Pass> pass, Counts& counts) : pass_(std::move(pass)), counts_(counts) {}
  Status finish() override { return pass_->finish(); }

 private:
  void encode(const Op& op) override {
    counts_.looked_up += std::holds_alternative<TakeRows>(op) ? 1 : 0;
    counts_.projected += std::holds_alternative<Projections>(op) ? 1 : 0;
    pass_->run(op);
  }
  std::unique_ptr<Pass> pass_;
  Counts& counts_;
};

class TokenTableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_model(test::test_data_path("clef-tiny"));
    ASSERT_TRUE(opened) << opened.error().message;
    file = std::move(opened).value();
    device = std::move(open_cpu_device({.num_threads = 2})).value();
  }
  std::unique_ptr<Network> load(bool has_token_table) const {
    return std::move(Network::load(file, *device, has_token_table)).value();
  }
  // With a question near its end; ids from all of the vocabulary, its last one among them.
  EncodedRecord record(std::int64_t tokens, std::int64_t step) const {
    EncodedRecord record;
    for (std::int64_t i = 0; i < tokens; ++i) {
      record.input_ids.push_back(static_cast<std::int32_t>((i + 1) * step % file.config.text.vocab_size));
    }
    record.input_ids[5] = static_cast<std::int32_t>(file.config.text.vocab_size - 1);
    record.media_offset = 4;
    record.schema_first = tokens - 40;
    EncodedQuestion& question = record.questions.emplace_back();
    question.span = {.first = tokens - 38, .count = 3};
    question.option_spans = {{.first = tokens - 30, .count = 4}, {.first = tokens - 20, .count = 5}};
    return record;
  }
  EncodedRecord picture() const {
    EncodedRecord with = record(120, 7);
    EncodedMedia& image = with.media.emplace_back();
    image.grid_h = 2;
    image.grid_w = 16;
    image.token_spans = {{.first = 10, .count = 8}};
    image.patches.assign(static_cast<std::size_t>(32 * file.config.vision->patch_width()), 9);
    return with;
  }
  static std::vector<std::vector<std::vector<float>>> logits(Network& network,
                                                             const std::vector<const EncodedRecord*>& records,
                                                             Counts* counts = nullptr) {
    const auto count = [](std::unique_ptr<Pass> pass, void* context) -> std::unique_ptr<Pass> {
      return std::make_unique<CountingPass>(std::move(pass), *static_cast<Counts*>(context));
    };
    const auto decisions = counts == nullptr ? network.run(records) : network.run(records, count, counts);
    if (!decisions) throw std::runtime_error(decisions.error().message);
    std::vector<std::vector<std::vector<float>>> all;
    for (const auto& decision : *decisions) {
      if (!decision) throw std::runtime_error(decision.error().message);
      all.push_back(decision->logits);
    }
    return all;
  }
  ModelFile file;
  std::unique_ptr<Device> device;
};

TEST_F(TokenTableTest, ChangesNoBit) {
  const EncodedRecord one = record(120, 7), other = record(257, 12345);
  const auto with = load(true), without = load(false);
  for (int round = 0; round < 2; ++round) {  // then with the first tokens known
    EXPECT_EQ(logits(*with, {&one}), logits(*without, {&one}));
    EXPECT_EQ(logits(*with, {&other, &one}), logits(*without, {&other, &one}));
  }
}

TEST_F(TokenTableTest, IsLookedUpInPassesWithoutMedia) {
  const EncodedRecord one = record(120, 7), image = picture();
  const auto with = load(true), without = load(false);
  Counts text, computed, media, mixed;
  logits(*with, {&one}, &text);
  logits(*without, {&one}, &computed);
  EXPECT_EQ(text, (Counts{.looked_up = 2, .projected = computed.projected - 1}));
  EXPECT_EQ(computed.looked_up, 0);
  EXPECT_EQ(logits(*with, {&image}, &media), logits(*without, {&image}));
  EXPECT_EQ(media, computed);
  EXPECT_EQ(logits(*with, {&one, &image}, &mixed), logits(*without, {&one, &image}));
  EXPECT_EQ(mixed, computed);
}

TEST_F(TokenTableTest, IsOfADecoderThatBeginsWithGatedDeltaNet) {
  TextConfig config = file.config.text;
  EXPECT_GT(TokenTable::bytes(config, {}), 0U);
  config.layer_types.front() = LayerType::full_attention;
  EXPECT_EQ(TokenTable::bytes(config, {}), 0U);
}

// A plan had room for it, but others may have taken that since.
TEST_F(TokenTableTest, IsDoneWithoutWhereThereIsNoRoom) {
  test::FailingDevice roomy, narrow, failing;
  narrow.most_bytes = TokenTable::bytes(file.config.text, {}) - 1;
  failing.failures.emplace_back(Error{Errc::device, "failing:0: an illegal address"});
  const auto with = Network::load(file, roomy, true), without = Network::load(file, narrow, true),
             failed = Network::load(file, failing, true);
  ASSERT_TRUE(with && without);
  EXPECT_TRUE((*with)->has_token_table());
  EXPECT_FALSE((*without)->has_token_table());
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "failing:0: an illegal address");
  EXPECT_FALSE((*Network::load(file, roomy))->has_token_table());
}

}  // namespace
}  // namespace clef
