#include "record/decision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/golden.h"

namespace clef {
namespace {

// The reference's softmax is PyTorch's: other float32 exponentials, another order of the sum.
constexpr double kTolerance = 2e-7;

TEST(Softmax, AgreesWithTheReference) {
  std::size_t compared = 0;
  for (const char* file : {"text.jsonl", "tiny27.jsonl"}) {
    for (const Json& record : test::golden_lines(file)) {
      const Json::Array& questions = *record.find("logits")->if_array();
      for (std::size_t i = 0; i < questions.size(); ++i) {
        std::vector<float> logits;
        for (const Json& logit : *questions[i].if_array()) logits.push_back(static_cast<float>(*logit.if_double()));
        const auto probabilities = softmax(logits);
        const Json::Array& expected = record.find("probabilities")->if_array()->at(i).if_array()[0];
        ASSERT_EQ(probabilities.size(), expected.size());
        for (std::size_t k = 0; k < expected.size(); ++k) {
          EXPECT_NEAR(probabilities[k], *expected[k].if_double(), kTolerance) << *record.find("name")->if_string();
          ++compared;
        }
      }
    }
  }
  EXPECT_EQ(compared, 644U);
}

TEST(Softmax, HoldsAtTheEdges) {
  EXPECT_TRUE(softmax({}).empty());
  const float one[] = {-3.5F};
  EXPECT_EQ(softmax(one), std::vector<double>{1.0});
  const float wide[] = {3e38F, -3e38F, 3e38F};
  EXPECT_EQ(softmax(wide), (std::vector<double>{0.5, 0.0, 0.5}));
  const float nan[] = {0.0F, std::numeric_limits<float>::quiet_NaN()};
  for (const double probability : softmax(nan)) EXPECT_TRUE(std::isnan(probability));
}

TEST(Softmax, GivesFloat32Values) {
  const float logits[] = {0.1F, -2.0F, 1.7F, 0.33F};
  for (const double probability : softmax(logits))
    EXPECT_EQ(probability, static_cast<double>(static_cast<float>(probability)));
}

}  // namespace
}  // namespace clef
