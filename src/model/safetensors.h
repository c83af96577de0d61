// safetensors: 8 bytes of header length, a JSON header that names tensors, then their data back to back.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "model/tensor_table.h"

namespace clef {

// The tensors of one file's bytes, each name with `prefix` before it. Checked: header length, JSON, types, shapes, that
// every range lies in the file, and that ranges neither overlap nor leave gaps. Errors begin with `file`.
Result<TensorTable> parse_safetensors(std::string_view file, std::span<const std::byte> bytes,
                                      std::string_view prefix = "");

// Files mapped together, and the tensors of all of them.
struct MappedTensors {
  std::vector<std::shared_ptr<const MappedFile>> files;
  TensorTable tensors;
  std::size_t bytes = 0;  // of tensor data

  // Maps a file and adds its tensors; a name that is already there is an error.
  Status add_safetensors(const std::filesystem::path& path, std::string_view prefix = "");
};

// The backbone of a snapshot folder: model.safetensors, or the shards that model.safetensors.index.json names. Checks
// that the index and the shards name the same tensors in the same places.
Status add_sharded_safetensors(const std::filesystem::path& folder, MappedTensors& tensors);

// The part of a file before its data, for tensors written back to back in this order. Padded with spaces, so that data
// begin on a multiple of 8.
struct SafetensorsEntry {
  std::string name;
  DType dtype;
  Shape shape;
};
std::string safetensors_header(std::span<const SafetensorsEntry> entries);

}  // namespace clef
