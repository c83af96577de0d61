// From logits to probabilities.
#pragma once

#include <span>
#include <vector>

namespace clef {

// One record's outcome: for each question, one number for each option, in prompt order.
struct Decisions {
  std::vector<std::vector<float>> logits;
  std::vector<std::vector<double>> probabilities;  // softmax in float32, then widened, as the reference does
};

// Softmax over one question's options in float32. Sizes are small; the order of the sum is that of the options.
std::vector<double> softmax(std::span<const float> logits);

}  // namespace clef
