#include "model/snapshot.h"

#include <system_error>

#include "base/paths.h"
#include "model/hub_cache.h"

namespace clef {

namespace {

Result<std::string> read_optional(const std::filesystem::path& folder, std::string_view name) {
  const std::filesystem::path path = folder / name;
  return path_exists(path) ? read_text_file(path, kMaxTextBytes) : std::string();
}

}  // namespace

Result<std::string> read_required(const std::filesystem::path& folder, std::string_view name) {
  const std::filesystem::path path = folder / name;
  if (!path_exists(path)) {
    if (name == "joint_head_config.json" && path_exists(folder / "config.json")) {
      return Error{Errc::io, fmt::format("{}: no {}: this folder holds a backbone without the joint schema head",
                                         folder.string(), name)};
    }
    return Error{Errc::io, fmt::format("{}: no {}: expected a snapshot folder of Clef or Clef-Flash, with config.json, "
                                       "joint_head_config.json, tokenizer.json, *.safetensors",
                                       folder.string(), name)};
  }
  return read_text_file(path, kMaxTextBytes);
}

Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t limit) {
  const MappedFile file = TRY(MappedFile::open(path));
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() > limit) {
    return Error{Errc::too_large, fmt::format("{}: {} bytes, at most {}", path.string(), bytes.size(), limit)};
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Result<SnapshotTexts> read_snapshot_texts(const std::filesystem::path& folder) {
  SnapshotTexts texts;
  texts.config = TRY(read_required(folder, "config.json"));
  texts.head_config = TRY(read_required(folder, "joint_head_config.json"));
  texts.processor = TRY(read_optional(folder, "processor_config.json"));
  texts.image_processor = TRY(read_optional(folder, "preprocessor_config.json"));
  texts.video_processor = TRY(read_optional(folder, "video_preprocessor_config.json"));
  texts.tokenizer = TRY(read_optional(folder, "tokenizer.json"));
  texts.tokenizer_config = TRY(read_optional(folder, "tokenizer_config.json"));
  return texts;
}

std::string snapshot_name(const std::filesystem::path& folder) {
  if (const auto repo = cached_repo(folder)) return repo->substr(repo->find('/') + 1);
  std::error_code failure;
  std::filesystem::path path = std::filesystem::weakly_canonical(folder, failure);
  if (failure) path = folder;
  return path.filename().string();
}

Result<ModelConfig> parse_snapshot_config(const std::filesystem::path& folder, const SnapshotTexts& texts) {
  return parse_config(snapshot_name(folder), {.config = texts.config,
                                              .head_config = texts.head_config,
                                              .processor = texts.processor,
                                              .image_processor = texts.image_processor,
                                              .video_processor = texts.video_processor});
}

Result<MappedTensors> map_snapshot_tensors(const std::filesystem::path& folder) {
  MappedTensors mapped;
  TRY(add_sharded_safetensors(folder, mapped));
  const std::filesystem::path head = folder / "joint_head.safetensors";
  if (!path_exists(head)) {
    return Error{Errc::io,
                 fmt::format("{}: missing: this folder holds a backbone without the joint schema head", head.string())};
  }
  TRY(mapped.add_safetensors(head, "head."));
  // Multi-token prediction is for generating, which a decision model never does; base exports may still carry it.
  std::erase_if(mapped.tensors, [](const auto& entry) { return entry.first.starts_with("mtp."); });
  return mapped;
}

}  // namespace clef
