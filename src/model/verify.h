// Compares a GGUF with the snapshot it was made from, value by value.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"

namespace clef {

struct VerifyReport {
  std::int64_t num_exact = 0, num_expected = 0;  // tensors
  std::uint64_t bytes_compared = 0;
  std::vector<std::string> differences;  // "MISSING name", "UNEXPECTED name", "DIFFERENT name: how", "METADATA what"
  bool is_exact() const { return differences.empty() && num_exact == num_expected; }
};

// What the GGUF must hold is worked out from the snapshot's names and config, by other tables than the converter's.
// Errors are for files that cannot be read at all.
Result<VerifyReport> verify(const std::filesystem::path& snapshot, const std::filesystem::path& gguf,
                            const ProgressFunction& progress);

}  // namespace clef
