// Whole decisions on a GPU: how near the reference they are, and that their bits do not depend on the company.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "backend/cuda/cuda_device.h"
#include "engine/engine.h"
#include "skip.h"
#include "support/golden.h"
#include "support/media_requests.h"

namespace clef {
namespace {

using test::golden_lines;
using test::test_data_path;

std::string no_gpu() {
  const auto gpus = list_cuda_gpus();
  return gpus ? "" : gpus.error().message;
}

// Small models are f32 throughout unless the device is told otherwise; so they are run as the large ones are.
constexpr std::int64_t kAsLargeModels = 8;

std::unique_ptr<Engine> open_engine(const std::string& model, DType activation = DType::f16, bool token_table = true) {
  auto device =
      open_cuda_device({.precise_layers = activation == DType::f16 ? std::optional(kAsLargeModels) : std::nullopt,
                        .activation = activation});
  if (!device) throw std::runtime_error(device.error().message);
  auto engine = Engine::open(test_data_path(model), std::move(device).value(),
                             {.encode = {}, .token_table = token_table, .trace = {}});
  if (!engine) throw std::runtime_error(engine.error().message);
  return std::move(engine).value();
}

double number(const Json& value) {
  if (const double* real = value.if_double()) return *real;
  return std::strtod(value.if_integer()->digits.c_str(), nullptr);
}

std::string request_text(const Json& golden) {
  const auto videos = test::videos_of(golden);
  const Json* images = golden.find("images");
  if (videos.empty() && (images == nullptr || !images->is_truthy())) return *golden.find("request_text")->if_string();
  return to_compact_json(test::media_request(golden, videos));
}

struct Bounds {
  double mean, most;  // of the differences of probabilities
};

void check(Engine& engine, const std::string& model, const std::vector<std::string>& goldens, Bounds bounds,
           std::string_view way) {
  for (const std::string& name : goldens) {
    double sum = 0, most = 0, most_logit = 0;
    std::int64_t options = 0, questions = 0, clear = 0;
    for (const Json& golden : golden_lines(name)) {
      SCOPED_TRACE(*golden.find("name")->if_string());
      const auto answer = engine.answer(request_text(golden));
      ASSERT_TRUE(answer) << answer.error().message;
      const Json::Array& logits = *golden.find("logits")->if_array();
      const Json::Array& probabilities = *golden.find("probabilities")->if_array();
      for (std::size_t q = 0; q < probabilities.size(); ++q) {
        std::vector<double> expected, actual = answer->decisions.probabilities[q];
        for (const Json& p : *probabilities[q].if_array()) expected.push_back(number(p));
        ASSERT_EQ(expected.size(), actual.size());
        for (std::size_t k = 0; k < expected.size(); ++k) {
          sum += std::abs(expected[k] - actual[k]);
          most = std::max(most, std::abs(expected[k] - actual[k]));
          most_logit = std::max(most_logit, std::abs(number((*logits[q].if_array())[k]) -
                                                     static_cast<double>(answer->decisions.logits[q][k])));
          ++options;
        }
        std::vector<double> sorted = expected;
        std::sort(sorted.rbegin(), sorted.rend());
        ++questions;
        if (sorted.size() < 2 || sorted[0] - sorted[1] <= 1e-3) continue;
        ++clear;
        EXPECT_EQ(std::max_element(expected.begin(), expected.end()) - expected.begin(),
                  std::max_element(actual.begin(), actual.end()) - actual.begin())
            << "question " << q;
      }
    }
    const double mean = sum / static_cast<double>(options);
    std::printf("%s, %s, %s: %ld questions (%ld clear), mean |dp| %.2e, most %.2e, most |dlogit| %.2e\n", model.c_str(),
                name.c_str(), std::string(way).c_str(), static_cast<long>(questions), static_cast<long>(clear), mean,
                most, most_logit);
    EXPECT_LE(mean, bounds.mean);
    EXPECT_LE(most, bounds.most);
  }
}

void check_model(const std::string& model, const std::vector<std::string>& goldens, Bounds bounds,
                 DType activation = DType::f16) {
  check(*open_engine(model, activation), model, goldens, bounds, name_of(activation));
}

TEST(CudaDecisions, AgreeWithTheReference) {
  SKIP_BECAUSE(no_gpu());
  check_model("clef-tiny.gguf", {"text.jsonl", "vision.jsonl", "video.jsonl"}, {5e-5, 5e-4});
}

// Its scales are capped at 100: what is small in a logit is large in a probability.
TEST(CudaDecisions, AgreeForTheSecondModel) {
  SKIP_BECAUSE(no_gpu());
  check_model("clef-tiny27.gguf", {"tiny27.jsonl"}, {5e-5, 5e-4});
}

TEST(CudaDecisions, AgreeAsTheyAreRun) {
  SKIP_BECAUSE(no_gpu());
  for (const auto& [model, golden] :
       {std::pair("clef-tiny.gguf", "text.jsonl"), std::pair("clef-tiny27.gguf", "tiny27.jsonl")}) {
    auto device = open_cuda_device({});
    ASSERT_TRUE(device) << device.error().message;
    auto engine = Engine::open(test_data_path(model), std::move(device).value(), {});
    ASSERT_TRUE(engine) << engine.error().message;
    check(**engine, model, {golden}, {5e-5, 5e-4}, "as run");
  }
}

TEST(CudaDecisions, AgreeInFloat) {
  SKIP_BECAUSE(no_gpu());
  check_model("clef-tiny.gguf", {"text.jsonl", "vision.jsonl", "video.jsonl"}, {2e-6, 1e-5}, DType::f32);
  check_model("clef-tiny27.gguf", {"tiny27.jsonl"}, {2e-6, 2e-5}, DType::f32);
}

using Logits = std::vector<std::vector<float>>;

std::vector<Logits> run(Engine& engine, const std::vector<std::string>& texts, std::size_t batch, std::uint32_t seed) {
  std::vector<std::size_t> order(texts.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (seed != 0) std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  std::vector<Logits> results(texts.size());
  for (std::size_t first = 0; first < order.size(); first += batch) {
    std::vector<std::string> requests;
    for (std::size_t i = first; i < std::min(first + batch, order.size()); ++i) requests.push_back(texts[order[i]]);
    const auto answers = engine.answer_batch(requests);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i]) throw std::runtime_error(answers[i].error().message);
      results[order[first + i]] = answers[i]->decisions.logits;
    }
  }
  return results;
}

void expect_same(const std::vector<Logits>& expected, const std::vector<Logits>& actual, const std::string& way) {
  ASSERT_EQ(expected.size(), actual.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t q = 0; q < expected[i].size(); ++q) {
      EXPECT_EQ(std::memcmp(expected[i][q].data(), actual[i][q].data(), expected[i][q].size() * sizeof(float)), 0)
          << way << ": request " << i << ", question " << q << ": " << expected[i][q][0] << " and " << actual[i][q][0];
    }
  }
}

void check_bits(const std::string& model, const std::vector<std::string>& goldens, DType activation) {
  std::vector<std::string> texts;
  for (const std::string& name : goldens) {
    for (const Json& golden : golden_lines(name)) texts.push_back(request_text(golden));
  }
  const auto engine = open_engine(model, activation);
  const auto alone = run(*engine, texts, 1, 0);
  expect_same(alone, run(*engine, texts, 1, 0), "again");
  expect_same(alone, run(*engine, texts, 8, 0), "batches of 8");
  expect_same(alone, run(*engine, texts, 64, 0), "batches of 64");
  expect_same(alone, run(*engine, texts, 64, 1), "batches of 64 in another order");
  expect_same(alone, run(*engine, texts, 5, 2), "batches of 5 in another order");
  expect_same(alone, run(*open_engine(model, activation, false), texts, 8, 0), "without a token table");
  // The first pass of an engine computes the tokens that all begin with; above, that is the first request alone.
  expect_same(alone, run(*open_engine(model, activation), texts, 64, 0), "batches of 64, all tokens computed");
  for (std::size_t i = 1; i < texts.size(); i += 7) {
    expect_same({alone[i]}, run(*open_engine(model, activation), {texts[i]}, 1, 0), "alone, all tokens computed");
  }
}

TEST(CudaBits, DoNotDependOnTheCompany) {
  SKIP_BECAUSE(no_gpu());
  check_bits("clef-tiny", {"text.jsonl", "vision.jsonl", "video.jsonl"}, DType::f16);
  check_bits("clef-tiny27", {"tiny27.jsonl"}, DType::f16);
}

TEST(CudaBits, DoNotDependOnTheCompanyInFloat) {
  SKIP_BECAUSE(no_gpu());
  check_bits("clef-tiny27.gguf", {"tiny27.jsonl"}, DType::f32);
}

}  // namespace
}  // namespace clef
