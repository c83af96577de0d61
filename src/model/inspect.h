// What a model file says about itself, for people and for programs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gguf.h"
#include "model/tensor_table.h"
#include "text/json.h"

namespace clef {

// A file looked into as far as it goes: a GGUF of any architecture, a snapshot folder, or one safetensors file.
struct Inspection {
  std::string kind;  // "GGUF", "snapshot" or "safetensors"
  std::string path;
  std::vector<std::pair<std::string, Json>> metadata;  // scalars as they are; lists as {"type", "count", "first"}
  struct Tensor {
    std::string name, file, dtype;
    Shape shape;
    std::size_t bytes = 0;
  };
  std::vector<Tensor> tensors;
  std::size_t tensor_bytes = 0;
  std::string problem;  // why the engine would not open it; empty: it would
};

Result<Inspection> inspect(const std::filesystem::path& path);

std::string to_text(const Inspection& inspection, bool with_tensors);
Json to_json(const Inspection& inspection, bool with_tensors);

}  // namespace clef
