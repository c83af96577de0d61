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
  std::size_t token_table = 0;  // of the network's, or none
  std::size_t activations = 0;  // of the pass, its tables included
  std::size_t workspace = 0;    // that the device's ops take beside
  std::size_t total() const { return weights + tables + token_table + activations + workspace; }
};

// A record of text that has as many options as its tokens can spell.
EncodedRecord fullest_record(std::int64_t tokens);

// For passes of `tokens` tokens, with as many questions and options as so many tokens can spell, or as many patches.
Result<MemoryPlan> plan_memory(const ModelFile& file, Device& device, std::int64_t tokens,
                               bool has_token_table = false);
// The same of a device whose memory is firm, with a token table if one is wished for and all fits; of others without.
// Errc::out_of_memory as check_fits() has it.
Result<MemoryPlan> plan_memory_that_fits(const ModelFile& file, Device& device, std::int64_t tokens,
                                         bool wants_token_table);

// "16384 tokens in flight: 36.08 GB (weights 17.91, token table 12.27, activations 3.20, ops 2.70)"
std::string describe(const MemoryPlan& plan);

// Errc::out_of_memory when the device is known not to have that much free; says how many tokens would fit.
Status check_fits(const MemoryPlan& plan, const Device& device);

}  // namespace clef
