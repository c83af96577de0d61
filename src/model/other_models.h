// What people have that is almost a model of ours, recognised, so that the message can say what to do about it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"
#include "model/gguf.h"

namespace clef {

// A folder that is half a download, quantised, of another format, or of git-LFS pointers. What passes may still be
// refused by what reads it.
Status check_folder_kind(const std::filesystem::path& folder);

// A file by its first bytes: pointer, pickle, one file of a snapshot, or part of a download.
Status check_file_kind(const std::filesystem::path& path, std::span<const std::byte> bytes);

// A GGUF by its metadata: another architecture, or a part of several.
Status check_gguf_kind(std::string_view label, const GgufMetadata& metadata);

// A GGUF with our architecture's name and another program's tensors.
Status check_gguf_tensors(std::string_view label, const TensorTable& tensors);

}  // namespace clef
