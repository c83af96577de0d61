// A snapshot folder as one GGUF: the same numbers in one mappable file.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/progress.h"
#include "base/result.h"

namespace clef {

struct ConvertReport {
  std::int64_t num_tensors = 0;
  std::uint64_t file_bytes = 0;
};

// Streams from mapping to file. Refuses a snapshot that the engine would not serve, and one whose matrices are not
// BF16. The file appears under its name only when it is whole.
Result<ConvertReport> convert(const std::filesystem::path& snapshot, const std::filesystem::path& out,
                              const ProgressFunction& progress);

}  // namespace clef
