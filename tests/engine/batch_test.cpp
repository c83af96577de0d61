// Records packed side by side.
#include "model/batch.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_device.h"
#include "model/known_prefix.h"

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
  Packing packing(config);
  EncodedRecord first = record_of(5, 3), second = record_of(4, 2);
  first.input_ids = {7, 6, 1, 2, 3};
  second.input_ids = {7, 6, 4, 5};
  const EncodedRecord* records[] = {&first, &second};
  PrefixRows known;
  known.tokens = 2;
  const auto batch = pack(records, config, packing, *device, &known);
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
  // Angles are those of a token's place in its record.
  std::vector<float> cos, sin;
  for (const int place : {2, 3, 4, 2, 3}) packing.rope.append({place, place, place}, cos, sin);
  ASSERT_EQ(batch->cos.rows, 5);
  for (std::int64_t i = 0; i < batch->cos.rows * batch->cos.cols; ++i) {
    ASSERT_EQ(batch->cos.row<const float>(0)[i], cos[static_cast<std::size_t>(i)]) << i;
  }
}

TEST(Batch, KnowsTheRowsOfQuestionsAndOptions) {
  const auto device = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
  const ModelConfig config = config_of(8);
  Packing packing(config);
  const EncodedRecord first = record_of(5, 3), second = record_of(4, 0), third = record_of(3, 2);
  const EncodedRecord* records[] = {&first, &second, &third};
  const auto batch = pack(records, config, packing, *device);
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_EQ(batch->tokens, 12);
  EXPECT_EQ(batch->precise.count(), 2 + 4 + 1);
  EXPECT_EQ(numbers(*device, batch->precise.rows), (std::vector<std::int32_t>{3, 4, 5, 6, 7, 8, 11}));
  EXPECT_EQ(numbers(*device, batch->precise.places),
            (std::vector<std::int32_t>{-1, -1, -1, 0, 1, 2, 3, 4, 5, -1, -1, 6}));
  EXPECT_EQ(numbers(*device, batch->cu_seqlens), (std::vector<std::int32_t>{0, 5, 9, 12}));
  EXPECT_EQ(numbers(*device, batch->last_token_spans).front(), 4);
}

}  // namespace
}  // namespace clef
