// `-m MODEL`: a Hugging Face snapshot folder, one GGUF, or ORG/NAME of the hub's cache, opened, checked and bound.
#pragma once

#include <filesystem>
#include <memory>

#include "base/result.h"
#include "model/config.h"
#include "model/weights.h"
#include "text/tokenizer.h"

namespace clef {

struct ModelFile {
  ModelConfig config;
  ModelWeights weights;  // views into the mappings below
  TokenizerDefinition tokenizer;
  std::size_t bytes = 0;           // of tensor data mapped
  std::shared_ptr<void> mappings;  // keeps the files mapped
};

// Opens by mapping: no tensor data is read but what is folded (norms, biases). Every count, offset, type and shape is
// checked first. `named` may also be a name of hub_cache.h, when no such path is there. Errors name the file and the
// tensor or key: bad_model, unsupported, io.
Result<ModelFile> open_model(const std::filesystem::path& named);

// The tokenizer alone: of a GGUF, or of any folder with a tokenizer.json, weights or none.
Result<TokenizerDefinition> open_tokenizer(const std::filesystem::path& named);

// The two kinds. A GGUF's bytes must outlive the model, whose mappings hold here only what had to be copied.
Result<ModelFile> open_snapshot(const std::filesystem::path& folder);
Result<ModelFile> parse_gguf_model(std::string_view label, std::span<const std::byte> bytes);

}  // namespace clef
