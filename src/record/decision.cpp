#include "record/decision.h"

#include <algorithm>
#include <cmath>

namespace clef {

std::vector<double> softmax(std::span<const float> logits) {
  if (logits.empty()) return {};
  const float largest = *std::max_element(logits.begin(), logits.end());
  std::vector<float> exponentials;
  exponentials.reserve(logits.size());
  float sum = 0;
  for (const float logit : logits) {
    // exp in double and rounded once: the same bits under every C library.
    exponentials.push_back(static_cast<float>(std::exp(static_cast<double>(logit - largest))));
    sum += exponentials.back();
  }
  std::vector<double> probabilities;
  probabilities.reserve(logits.size());
  for (const float value : exponentials) probabilities.push_back(value / sum);
  return probabilities;
}

}  // namespace clef
