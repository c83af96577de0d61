// The same request has the same logits to the bit in any company: alone, packed in any order, with one thread or more,
// with each kernel table, from a snapshot and from a GGUF.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "backend/open.h"
#include "engine/engine.h"
#include "support/golden.h"
#include "support/media_requests.h"

namespace clef {
namespace {

using test::golden_lines;
using test::test_data_path;

struct Way {
  std::string model = "clef-tiny";
  int threads = 2;
  std::string kernels = {};
  std::size_t batch = 1;
  std::uint32_t shuffle = 0;  // 0: as they come
};

// Text, images and videos; short enough to keep every way quick; lengths fall on both sides of attention blocks and
// chunks.
std::vector<std::string> requests() {
  std::vector<std::string> texts;
  for (const Json& golden : golden_lines("text.jsonl")) {
    if (golden.find("input_ids")->if_array()->size() <= 520) texts.push_back(*golden.find("request_text")->if_string());
  }
  for (const char* goldens : {"vision.jsonl", "video.jsonl"}) {
    for (const Json& golden : golden_lines(goldens)) {
      texts.push_back(to_compact_json(test::media_request(golden, test::videos_of(golden))));
    }
  }
  return texts;
}

// Logits of each request, in the order of `texts`.
std::vector<std::vector<std::vector<float>>> logits(const std::vector<std::string>& texts, const Way& way) {
  auto device = open_device({.device = "cpu", .num_threads = way.threads, .cpu_kernels = way.kernels});
  if (!device) throw std::runtime_error(device.error().message);
  auto engine = Engine::open(test_data_path(way.model), std::move(device).value(), {});
  if (!engine) throw std::runtime_error(engine.error().message);
  std::vector<std::size_t> order(texts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (way.shuffle != 0) std::shuffle(order.begin(), order.end(), std::mt19937(way.shuffle));
  std::vector<std::vector<std::vector<float>>> results(texts.size());
  for (std::size_t first = 0; first < order.size(); first += way.batch) {
    std::vector<std::string> batch;
    for (std::size_t i = first; i < std::min(first + way.batch, order.size()); ++i) batch.push_back(texts[order[i]]);
    const auto answers = (*engine)->answer_batch(batch);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i]) throw std::runtime_error(answers[i].error().message);
      results[order[first + i]] = answers[i]->decisions.logits;
    }
  }
  return results;
}

class LogitBits : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    texts_ = requests();
    alone_ = logits(texts_, {});
  }
  static void expect_same(const Way& way, std::size_t first = 0, std::size_t step = 1) {
    std::vector<std::string> texts;
    std::vector<std::size_t> places;
    for (std::size_t i = first; i < texts_.size(); i += step) {
      texts.push_back(texts_[i]);
      places.push_back(i);
    }
    const auto other = logits(texts, way);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto& expected = alone_[places[i]];
      ASSERT_EQ(expected.size(), other[i].size());
      for (std::size_t q = 0; q < expected.size(); ++q) {
        ASSERT_EQ(expected[q].size(), other[i][q].size());
        EXPECT_EQ(std::memcmp(expected[q].data(), other[i][q].data(), expected[q].size() * sizeof(float)), 0)
            << "request " << places[i] << ", question " << q;
      }
    }
  }
  static std::vector<std::string> texts_;
  static std::vector<std::vector<std::vector<float>>> alone_;
};
std::vector<std::string> LogitBits::texts_;
std::vector<std::vector<std::vector<float>>> LogitBits::alone_;

TEST_F(LogitBits, DoNotDependOnTheBatch) {
  ASSERT_GE(texts_.size(), 20U);
  expect_same({.batch = 64});
  expect_same({.batch = 5, .shuffle = 1});
}

TEST_F(LogitBits, DoNotDependOnTheOrder) { expect_same({.batch = 64, .shuffle = 2}); }

TEST_F(LogitBits, DoNotDependOnTheThreads) {
  expect_same({.threads = 1, .batch = 8});
  expect_same({.threads = 5, .batch = 8});
}

TEST_F(LogitBits, AreThoseOfTheGguf) { expect_same({.model = "clef-tiny.gguf", .batch = 8}); }

TEST_F(LogitBits, DoNotDependOnTheKernels) {
  for (const char* kernels : {"avx2", "plain"}) {
    auto device = open_device({.device = "cpu", .cpu_kernels = kernels});
    if (!device) {
      std::printf("not checked here: %s\n", device.error().message.c_str());
      continue;
    }
    // Plain code calls the library for every fma; a few requests do.
    expect_same({.kernels = kernels, .batch = 8}, 0, std::string(kernels) == "plain" ? 13 : 4);
  }
}

// Alone, the first request leaves the rows of the tokens that all begin with, and the others take them; of a batch of
// all nobody takes any.
TEST_F(LogitBits, DoNotDependOnWhoComputedTheFixedTokens) {
  expect_same({.batch = 1, .shuffle = 3});
  for (std::size_t i = 0; i < texts_.size(); i += 4) expect_same({}, i, texts_.size());
}

TEST_F(LogitBits, AreTheSameEveryTime) { expect_same({}, 0, 5); }

}  // namespace
}  // namespace clef
