// Writes a whole snapshot folder whose weights come from the formula of synthetic.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/progress.h"
#include "base/result.h"

namespace clef {

struct SynthesizeOptions {
  std::filesystem::path config_folder;        // config.json, joint_head_config.json and what else a snapshot has
  std::filesystem::path tokenizer_folder;     // tokenizer.json and tokenizer_config.json; empty: config_folder
  std::filesystem::path out_folder;           // made if it is not there
  std::optional<std::int64_t> num_layers;     // another depth than config.json's, in its rhythm of layer types
  bool vision = true;                         // false: leave the tower out
  std::uint64_t shard_bytes = 5'000'000'000;  // no shard is larger, unless one tensor is
};

struct SynthesizeReport {
  std::int64_t num_tensors = 0;
  std::uint64_t bytes = 0;  // of tensor data
  std::int64_t num_shards = 0;
};

// Streams with a few MB of memory. Every file appears whole or not at all; the index comes last, so that a folder which
// has one is complete.
Result<SynthesizeReport> synthesize(const SynthesizeOptions& options, const ProgressFunction& progress);

}  // namespace clef
