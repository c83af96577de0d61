// What a model takes of a device, found before anything is loaded: its own code runs on a device that only counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/model_file.h"
#include "ops/device.h"
#include "record/encode.h"

namespace clef {

struct MemoryPlan {
  std::int64_t tokens = 0;      // of one pass, in one record or many
  std::size_t weights = 0;      // the device's own copies; none where it reads the mapped file
  std::size_t tables = 0;       // norms, biases and other vectors
  std::size_t activations = 0;  // of the pass, its tables included
  std::size_t workspace = 0;    // that the device's ops take beside
  std::size_t total() const { return weights + tables + activations + workspace; }
};

// A record of text that has as many options as its tokens can spell.
EncodedRecord fullest_record(std::int64_t tokens);

// For passes of `tokens` tokens, with as many questions and options as so many tokens can spell, or as many patches.
Result<MemoryPlan> plan_memory(const ModelFile& file, Device& device, std::int64_t tokens);

// "16384 tokens in flight: 23.81 GB (weights 17.91, activations 3.20, ops 2.70)"
std::string describe(const MemoryPlan& plan);

// Errc::out_of_memory when the device is known not to have that much free; says how many tokens would fit.
Status check_fits(const MemoryPlan& plan, const Device& device);

}  // namespace clef
