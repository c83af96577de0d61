// Records packed side by side.
#include "model/batch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "backend/cpu/cpu_device.h"
#include "model/known_prefix.h"
#include "support/failing_device.h"

namespace clef {
namespace {

ModelConfig config_of(std::int64_t vocab_size) {
  ModelConfig config;
  config.text.vocab_size = vocab_size;
  config.text.head_dim = 256;
  config.text.rope_theta = 1e7F;
  config.text.rotary_dim = 64;
  config.text.mrope_section = {11, 11, 10};
  return config;
}

EncodedRecord record_of(std::int64_t tokens, std::int64_t schema_first) {
  EncodedRecord record;
  record.input_ids.assign(static_cast<std::size_t>(tokens), 1);
  record.schema_first = schema_first;
  EncodedQuestion question;
  question.span = {.first = schema_first, .count = 1};
  question.option_spans = {{.first = schema_first, .count = 1}, {.first = tokens - 1, .count = 1}};
  record.questions.push_back(question);
  return record;
}

std::vector<std::int32_t> numbers(Device& device, const Tensor& t) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(t.rows * t.cols));
  EXPECT_TRUE(device.download(std::as_writable_bytes(std::span(values)), t));
  return values;
}

TEST(Batch, LeavesOutTokensThatAreKnown) {
  const auto device = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
  const ModelConfig config = config_of(8);
  Packing packing(config, *device);
  EncodedRecord first = record_of(5, 3), second = record_of(4, 2);
  first.input_ids = {7, 6, 1, 2, 3};
  second.input_ids = {7, 6, 4, 5};
  const EncodedRecord* records[] = {&first, &second};
  PrefixRows known;
  known.tokens = 2;
  const auto batch = pack(records, config, packing, &known);
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_EQ(batch->tokens, 5);
  EXPECT_EQ(batch->all_tokens, 9);
  EXPECT_EQ(batch->known, &known);
  using Numbers = std::vector<std::int32_t>;
  EXPECT_EQ(numbers(*device, batch->ids), (Numbers{1, 2, 3, 4, 5}));
  EXPECT_EQ(numbers(*device, batch->cu_seqlens), (Numbers{0, 5, 9}));
  EXPECT_EQ(numbers(*device, batch->precise.rows), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(numbers(*device, batch->precise.places), (Numbers{-1, 0, 1, 2, 3}));
  EXPECT_EQ(numbers(*device, batch->question_spans), (Numbers{1, 1, 3, 1}));
  EXPECT_EQ(numbers(*device, batch->option_spans), (Numbers{1, 1, 2, 1, 3, 1, 4, 1}));
  EXPECT_EQ(numbers(*device, batch->last_token_spans), (Numbers{2, 1, 4, 1}));
  // A token's position is its place in its record.
  EXPECT_EQ(numbers(*device, batch->positions), (Numbers{2, 2, 2, 3, 3, 3, 4, 4, 4, 2, 2, 2, 3, 3, 3}));
}

TEST(Batch, TakesPositionsFromRecordsThatHaveThem) {
  const auto device = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
  const ModelConfig config = config_of(8);
  Packing packing(config, *device);
  const EncodedRecord first = record_of(3, 1);
  EncodedRecord second = record_of(3, 2);
  second.positions = {{0, 0, 0}, {1, 5, 1030}, {6, 6, 6}};
  const EncodedRecord* records[] = {&first, &second};
  const auto batch = pack(records, config, packing);
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_EQ(numbers(*device, batch->positions),
            (std::vector<std::int32_t>{0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 0, 0, 1, 5, 1030, 6, 6, 6}));
  EXPECT_GT(batch->cos.rows, 1030);
}

// The memory of a batch's tables serves the next one, but not while the batch is there.
TEST(Batch, LeavesItsMemoryToTheNext) {
  const auto device = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
  const ModelConfig config = config_of(8);
  Packing packing(config, *device);
  const EncodedRecord record = record_of(5, 3), longer = record_of(9, 3);
  const EncodedRecord *first[] = {&record}, *second[] = {&longer};
  auto batch = pack(first, config, packing);
  ASSERT_TRUE(batch) << batch.error().message;
  const auto beside = pack(second, config, packing);
  ASSERT_TRUE(beside) << beside.error().message;
  EXPECT_NE(batch->tables, beside->tables);
  EXPECT_EQ(numbers(*device, batch->cu_seqlens), (std::vector<std::int32_t>{0, 5}));
  EXPECT_EQ(numbers(*device, beside->cu_seqlens), (std::vector<std::int32_t>{0, 9}));
  batch = Error{Errc::internal, "gone"};
  std::optional<Batch> last;
  for (const EncodedRecord* const of : {&record, &longer}) {
    last.reset();
    auto next = pack({&of, 1}, config, packing);
    ASSERT_TRUE(next) << next.error().message;
    last = std::move(next).value();
  }
  EXPECT_EQ(numbers(*device, last->cu_seqlens), (std::vector<std::int32_t>{0, 9}));
  EXPECT_EQ(numbers(*device, last->ids), (std::vector<std::int32_t>(9, 1)));
}

// The angles that a device keeps are the reference's, and stay so when longer records come.
TEST(DeviceAngles, GrowAndStayTheSame) {
  const auto device = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
  const ModelConfig config = config_of(8);
  DeviceAngles angles(config.text, *device);
  const std::vector<float> frequencies = rope_frequencies(config.text);
  std::int64_t before = 0;
  for (const std::int64_t position : {0, 700, 1024, 5000, 3}) {
    ASSERT_TRUE(angles.reach(position));
    EXPECT_GT(angles.cos().rows, position);
    EXPECT_GE(angles.cos().rows, before);
    before = angles.cos().rows;
    for (std::int64_t p = 0; p < angles.cos().rows; p += 13) {
      for (std::size_t i = 0; i < frequencies.size(); ++i) {
        const float angle = static_cast<float>(p) * frequencies[i];
        ASSERT_EQ(angles.cos().row<const float>(p)[i], static_cast<float>(std::cos(static_cast<double>(angle))));
        ASSERT_EQ(angles.sin().row<const float>(p)[i], static_cast<float>(std::sin(static_cast<double>(angle))));
      }
    }
  }
}

TEST(Batch, KnowsTheRowsOfQuestionsAndOptions) {
  const auto device = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
  const ModelConfig config = config_of(8);
  Packing packing(config, *device);
  const EncodedRecord first = record_of(5, 3), second = record_of(4, 0), third = record_of(3, 2);
  const EncodedRecord* records[] = {&first, &second, &third};
  const auto batch = pack(records, config, packing);
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_EQ(batch->tokens, 12);
  EXPECT_EQ(batch->precise.count(), 2 + 4 + 1);
  EXPECT_EQ(numbers(*device, batch->precise.rows), (std::vector<std::int32_t>{3, 4, 5, 6, 7, 8, 11}));
  EXPECT_EQ(numbers(*device, batch->precise.places),
            (std::vector<std::int32_t>{-1, -1, -1, 0, 1, 2, 3, 4, 5, -1, -1, 6}));
  EXPECT_EQ(numbers(*device, batch->cu_seqlens), (std::vector<std::int32_t>{0, 5, 9, 12}));
  EXPECT_EQ(numbers(*device, batch->last_token_spans).front(), 4);
}

TEST(DeviceAngles, ThatDidNotArriveAreSentAgain) {
  test::FailingDevice device;
  DeviceAngles angles(config_of(8).text, device);
  device.upload_failures = {std::nullopt, Error{Errc::device, "a copy failed"}};
  const Status failed = angles.reach(3);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "a copy failed");
  ASSERT_TRUE(angles.reach(3));
  EXPECT_EQ(device.uploads, 4);
  ASSERT_TRUE(angles.reach(900));
  EXPECT_EQ(device.uploads, 4);
  device.most_bytes = 1000;
  const Status full = angles.reach(5000);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::out_of_memory);
  device.most_bytes = std::numeric_limits<std::size_t>::max();
  ASSERT_TRUE(angles.reach(3));
  EXPECT_EQ(device.uploads, 6);
}

EncodedRecord record_with_image(std::int64_t height, std::int64_t width, const VisionConfig& vision) {
  const std::int64_t tokens = height * width / 4;
  EncodedRecord record = record_of(3 + tokens, 2 + tokens);
  record.media.push_back(
      {.grid_h = height,
       .grid_w = width,
       .token_spans = {{.first = 1, .count = tokens}},
       .patches = std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * vision.patch_width()), 7)});
  return record;
}

// Images of the same size have one layout, which a batch keeps while it is there.
TEST(Batch, KeepsTheLayoutOfImages) {
  const auto device = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
  ModelConfig config = config_of(8);
  config.vision = VisionConfig{.hidden_size = 16,
                               .num_heads = 2,
                               .in_channels = 1,
                               .patch_size = 2,
                               .temporal_patch_size = 1,
                               .spatial_merge_size = 2,
                               .num_position_embeddings = 16,
                               .image_processor = {},
                               .video_processor = {}};
  Packing packing(config, *device);
  const EncodedRecord small = record_with_image(2, 4, *config.vision), text = record_of(5, 3),
                      large = record_with_image(4, 4, *config.vision);
  const auto pack_all = [&](std::vector<const EncodedRecord*> records) {
    auto batch = pack(records, config, packing);
    EXPECT_TRUE(batch) << batch.error().message;
    return std::move(batch).value();
  };
  const Batch first = pack_all({&small}), between = pack_all({&text}), again = pack_all({&text, &small});
  EXPECT_EQ(between.vision.patches, 0);
  EXPECT_EQ(again.vision.layout, first.vision.layout);
  EXPECT_EQ(again.vision.patches, 8);
  EXPECT_EQ(numbers(*device, first.vision.token_rows), (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(numbers(*device, again.vision.token_rows), (std::vector<std::int32_t>{6, 7}));
  const Batch other = pack_all({&large});
  EXPECT_NE(other.vision.layout, first.vision.layout);
  EXPECT_EQ(other.vision.patches, 16);
  EXPECT_EQ(numbers(*device, first.vision.layout->cu_segments), (std::vector<std::int32_t>{0, 8})) << "is still there";
  const Batch two = pack_all({&large, &small});
  EXPECT_EQ(numbers(*device, two.vision.layout->cu_segments), (std::vector<std::int32_t>{0, 16, 24}));
  EXPECT_NE(pack_all({&small, &large}).vision.layout, two.vision.layout) << "in another order";
}

}  // namespace
}  // namespace clef
