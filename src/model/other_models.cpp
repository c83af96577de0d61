#include "model/other_models.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "base/download_state.h"
#include "base/paths.h"
#include "model/gguf_keys.h"
#include "model/hub_cache.h"
#include "model/snapshot.h"
#include "text/json.h"

namespace clef {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxEntries = 10'000;
constexpr std::uintmax_t kMaxPointerBytes = 1024;  // git-LFS keeps its pointers below this
constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;

constexpr std::string_view kExact =
    "cleffa computes with the released BF16 values and nothing coarser, so that answers are the reference's";

Error bad(const fs::path& place, std::string_view what) {
  return Error{Errc::bad_model, fmt::format("{}: {}", place.string(), what)};
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end && paths.size() < kMaxEntries;
       entry.increment(failure)) {
    paths.push_back(entry->path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// "oid" and "size" of a git-LFS pointer are what the real file has.
bool is_lfs_pointer(std::string_view text) {
  return text.size() <= kMaxPointerBytes && text.starts_with("version https://git-lfs.github.com/spec/");
}

std::string lfs_advice(std::string_view text) {
  const std::size_t at = text.find("\nsize ");
  const std::string_view size =
      at == std::string_view::npos ? std::string_view("?") : text.substr(at + 6, text.find('\n', at + 6) - at - 6);
  return fmt::format(
      "a git-LFS pointer to a file of {} bytes, not the file: run `git lfs pull` there, or fetch the model "
      "with `clef-tool fetch`",
      size);
}

Status check_pointers(const std::vector<fs::path>& entries) {
  for (const fs::path& path : entries) {
    const std::string extension = path.extension().string();
    if (extension != ".safetensors" && extension != ".json" && extension != ".gguf") continue;
    std::error_code failure;
    if (fs::file_size(path, failure) > kMaxPointerBytes || failure) continue;
    const auto text = read_text_file(path, kMaxPointerBytes);
    if (text && is_lfs_pointer(*text)) return bad(path, lfs_advice(*text));
  }
  return {};
}

// The files that a fetch's manifest names and the folder lacks. Empty when there is no manifest to read.
std::vector<std::string> missing_files(const fs::path& folder, std::string& source) {
  std::vector<std::string> missing;
  const auto text = read_text_file(folder / kManifestFile, kMaxConfigBytes);
  const auto manifest = text ? parse_json(*text) : Result<Json>(Json());
  const Json* files = manifest && manifest->if_object() != nullptr ? manifest->find("files") : nullptr;
  if (files == nullptr || files->if_object() == nullptr) return missing;
  for (const auto& [path, entry] : *files->if_object()) {
    if (!path_exists(folder / path)) missing.push_back(path);
  }
  const Json* repo = manifest->find("repo");
  const Json* revision = manifest->find("revision");
  if (repo != nullptr && repo->if_string() != nullptr && revision != nullptr && revision->if_string() != nullptr) {
    source = fmt::format(" {} --revision {}", *repo->if_string(), *revision->if_string());
  }
  return missing;
}

Status check_unfinished(const fs::path& folder, const std::vector<fs::path>& entries) {
  if (path_exists(folder / kIncompleteFolder)) {
    std::string source = " MODEL";
    std::vector<std::string> missing = missing_files(folder, source);
    const std::size_t count = missing.size();
    if (count > 5) missing.resize(5);
    return bad(folder, fmt::format("half a download{}{}{}; go on with `clef-tool fetch{} --dir {}`",
                                   count > 0 ? ": missing " : "", fmt::join(missing, ", "),
                                   count > 5 ? fmt::format(" and {} more", count - 5) : "", source, folder.string()));
  }
  const fs::path hub_client = folder / ".cache/huggingface/download";
  for (const fs::path& path : entries_of(hub_client)) {
    if (path.extension() == ".incomplete") {
      return bad(folder, fmt::format("half a download: {} is unfinished; run the same `hf download` again",
                                     path.lexically_relative(folder).string()));
    }
  }
  for (const fs::path& path : entries) {
    const std::string extension = path.extension().string();
    if (extension == ".incomplete" || extension == ".part" || extension == ".crdownload" || extension == ".aria2") {
      return bad(folder,
                 fmt::format("half a download: {} is unfinished; let what fetched it go on", path.filename().string()));
    }
    std::error_code failure;
    if (fs::is_symlink(fs::symlink_status(path, failure)) && !path_exists(path)) {
      const auto repo = cached_repo(folder);
      return bad(path, fmt::format("a link to nothing: the file was never fetched, or was removed{}",
                                   repo ? fmt::format("; fetch it with `hf download {}`", *repo) : ""));
    }
  }
  return {};
}

// How config.json says that the weights are not those of the release; empty when they are.
std::string quantization(const Json& config) {
  for (const std::string_view key : {"quantization_config", "quantization"}) {
    const Json* member = config.find(key);
    if (member == nullptr || member->is_null()) continue;
    std::vector<std::string> words;
    for (const std::string_view name : {"quant_method", "bits", "group_size", "mode", "fmt"}) {
      const Json* value = member->if_object() == nullptr ? nullptr : member->find(name);
      if (value == nullptr || value->is_null()) continue;
      words.push_back(fmt::format("{} {}", name, value->if_string() != nullptr ? *value->if_string() : render(*value)));
    }
    return fmt::format("config.json: {}: quantised weights{}{}{}", key, words.empty() ? "" : " (",
                       fmt::join(words, ", "), words.empty() ? "" : ")");
  }
  return "";
}

bool has_extension(const std::vector<fs::path>& entries, std::string_view extension) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const fs::path& path) { return path.extension() == extension; });
}

// A folder without a config.json.
Status check_no_config(const fs::path& folder, const std::vector<fs::path>& entries) {
  const auto has = [&](std::string_view name) { return path_exists(folder / name); };
  if (has("snapshots") && has("blobs")) {
    return bad(folder,
               fmt::format("a repository of the hub's cache: give its name, `-m {}`, or a folder below snapshots/",
                           cached_repo(folder / "snapshots/x").value_or("ORG/NAME")));
  }
  if (has("adapter_config.json")) return bad(folder, "a LoRA adapter, not a whole model");
  for (const fs::path& path : entries) {
    if (path.extension() == ".gguf") {
      return bad(folder,
                 fmt::format("no snapshot, but a folder with GGUF files: give one of them, such as {}", path.string()));
    }
  }
  for (const fs::path& path : entries) {
    if (is_folder(path) && path_exists(path / "config.json")) {
      return bad(folder, fmt::format("no config.json; did you mean {}?", path.string()));
    }
  }
  return {};
}

}  // namespace

Status check_folder_kind(const fs::path& folder) {
  const std::vector<fs::path> entries = entries_of(folder);
  TRY(check_unfinished(folder, entries));
  TRY(check_pointers(entries));
  if (!path_exists(folder / "config.json")) return check_no_config(folder, entries);
  const auto text = read_text_file(folder / "config.json", kMaxConfigBytes);
  const auto config = text ? parse_json(*text) : Result<Json>(Json());
  if (config && config->if_object() != nullptr) {
    if (const std::string what = quantization(*config); !what.empty()) {
      return Error{Errc::unsupported, fmt::format("{}: {}; {}: use the release, `clef-tool fetch clef-flash`",
                                                  folder.string(), what, kExact)};
    }
  }
  if (!has_extension(entries, ".safetensors")) {
    for (const std::string_view extension : {".bin", ".pt", ".pth"}) {
      if (!has_extension(entries, extension)) continue;
      return Error{Errc::unsupported,
                   fmt::format("{}: PyTorch files alone ({}), which are pickled programs and are not read: expected "
                               "*.safetensors, as Clef is published",
                               folder.string(), extension)};
    }
  }
  return {};
}

Status check_file_kind(const fs::path& path, std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes);
  if (is_lfs_pointer(text)) return bad(path, lfs_advice(text));
  const std::string extension = path.extension().string();
  if (extension == ".incomplete" || extension == ".part" || extension == ".tmp") {
    return bad(path, "half a download: let what fetches it go on");
  }
  if (text.starts_with("GGUF")) return {};
  const std::string expected = "not a model: expected a snapshot folder or a GGUF made by `clef-tool convert`";
  if (extension == ".safetensors") return bad(path, expected + " (give the folder, not one of its files)");
  if (text.starts_with("PK\x03\x04") || text.starts_with("\x80\x02") || text.starts_with("\x80\x04")) {
    return bad(path, expected + "; this is a zip or a pickle, as PyTorch writes them");
  }
  if (text.starts_with("lmgg") || text.starts_with("tjgg")) return bad(path, expected + "; this is an old ggml file");
  if (text.empty()) return bad(path, expected + "; the file is empty");
  if (text.front() == '\0' &&
      std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(text.size(), 4096)),
                  [](char c) { return c == '\0'; })) {
    return bad(path, expected + "; it begins with zeros, as an unfinished download does");
  }
  return bad(path, expected);
}

Status check_gguf_kind(std::string_view label, const GgufMetadata& metadata) {
  const auto text = [&](std::string_view key) -> std::string {
    const auto found = metadata.find(key);
    return found == metadata.end() || found->second.if_string() == nullptr ? ""
                                                                           : std::string(*found->second.if_string());
  };
  if (const auto found = metadata.find("split.count"); found != metadata.end()) {
    const std::uint64_t* count = found->second.if_unsigned();
    if (count != nullptr && *count > 1) {
      return Error{
          Errc::unsupported,
          fmt::format("{}: one of {} parts of a split GGUF: join them first (gguf-split --merge)", label, *count)};
    }
  }
  const std::string architecture = text(gguf_key::kArchitecture);
  if (architecture == gguf_key::kClef) return {};
  std::string why;
  if (architecture.starts_with("qwen35") || architecture.starts_with("qwen3_5") || architecture == "qwen3next") {
    why = ": a Qwen backbone that generates text, without the joint schema head that decides";
  } else if (architecture == "clip" || architecture == "mmproj") {
    why = ": a vision tower alone, as llama.cpp keeps it";
  }
  return Error{Errc::unsupported,
               fmt::format("{}: model: not a clef GGUF (architecture {}){}; make one with `clef-tool convert SNAPSHOT "
                           "OUT.gguf`",
                           label, architecture.empty() ? "missing" : architecture, why)};
}

Status check_gguf_tensors(std::string_view label, const TensorTable& tensors) {
  const auto is_foreign = [](const auto& entry) {
    const std::string& name = entry.first;
    return name.starts_with("dec.") || name.ends_with(".ssm_alpha.weight") || name.ends_with(".ssm_beta.weight") ||
           name.ends_with(".ssm_ba.weight") || name.ends_with(".attn_gate.weight");
  };
  const auto foreign = std::find_if(tensors.begin(), tensors.end(), is_foreign);
  if (foreign == tensors.end()) return {};
  return Error{
      Errc::unsupported,
      fmt::format("{}: a GGUF with llama.cpp's tensors ({}), but without its keys of a decision head "
                  "(clef.decision.type): a backbone without the joint schema head. Make one with `clef-tool convert "
                  "SNAPSHOT OUT.gguf`, or give the snapshot",
                  label, foreign->first)};
}

}  // namespace clef
