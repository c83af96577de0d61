// A Hugging Face snapshot folder: its configs, its tokenizer's files and its tensors.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "model/config.h"
#include "model/safetensors.h"

namespace clef {

inline constexpr std::size_t kMaxTextBytes = std::size_t{256} << 20;  // the releases' tokenizer.json has 20 MB

// The small files of a folder as text; a missing one that not every snapshot has is empty.
struct SnapshotTexts {
  std::string config, head_config;
  std::string processor, image_processor, video_processor;
  std::string tokenizer, tokenizer_config;
};

// Errors teach what a folder must hold.
Result<std::string> read_required(const std::filesystem::path& folder, std::string_view name);
Result<SnapshotTexts> read_snapshot_texts(const std::filesystem::path& folder);
Result<ModelConfig> parse_snapshot_config(const std::filesystem::path& folder, const SnapshotTexts& texts);

// What general.name and the answers call the model: the folder's own name, or the repository's in the hub's cache.
std::string snapshot_name(const std::filesystem::path& folder);

// All tensors, head tensors as "head." + name, without those of the MTP layers.
Result<MappedTensors> map_snapshot_tensors(const std::filesystem::path& folder);

// A whole file as text. Errc::io; too_large over `limit` bytes.
Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t limit);

}  // namespace clef
