#include "model/hub_cache.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <vector>

#include "base/paths.h"

namespace clef {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";

// What clef-tool fetch takes by a short name, and the hub's own name for it.
std::string hub_name(const std::string& name) {
  return name == "clef" || name == "clef-flash" || name == "clef-omni" ? "Cloudflare/" + name : name;
}

bool is_hub_name(const std::string& name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == name.size()) return false;
  return name[0] != '.' && std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(slash), is_plain) &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(slash) + 1, name.end(), is_plain);
}

fs::path repo_folder(const fs::path& hub_cache, const std::string& repo) {
  const std::size_t slash = repo.find('/');
  return hub_cache / fmt::format("{}{}--{}", kPrefix, repo.substr(0, slash), repo.substr(slash + 1));
}

// The commit that refs/REF names; empty when there is none.
std::string commit_of(const fs::path& repo, const std::string& ref) {
  std::ifstream file(repo / "refs" / ref);
  std::string commit;
  file >> commit;
  return commit.size() <= 64 && commit.find('/') == std::string::npos && commit.find("..") == std::string::npos ? commit
                                                                                                                : "";
}

std::vector<std::string> snapshots_of(const fs::path& repo) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator entry(repo / "snapshots", failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (is_folder(entry->path())) names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

fs::path hub_cache_folder(const std::function<const char*(const char*)>& lookup) {
  const auto value = [&](const char* name) -> fs::path {
    const char* text = lookup(name);
    return text == nullptr ? "" : text;
  };
  if (fs::path folder = value("HF_HUB_CACHE"); !folder.empty()) return folder;
  if (const fs::path home = value("HF_HOME"); !home.empty()) return home / "hub";
  if (const fs::path cache = value("XDG_CACHE_HOME"); !cache.empty()) return cache / "huggingface/hub";
  if (const fs::path home = value("HOME"); !home.empty()) return home / ".cache/huggingface/hub";
  return {};
}

Result<fs::path> find_model(const fs::path& named, const fs::path& hub_cache) {
  if (path_exists(named)) return named;
  const std::string text = named.string();
  const std::size_t at = text.find('@');
  const std::string repo = hub_name(text.substr(0, at));
  const std::string revision = at == std::string::npos ? "" : text.substr(at + 1);
  if (!is_hub_name(repo) || revision.find("..") != std::string::npos) {
    return Error{Errc::io,
                 fmt::format("{}: no such file or folder: expected a snapshot folder or a GGUF, or ORG/NAME of "
                             "the hub's cache",
                             text)};
  }
  const fs::path folder = repo_folder(hub_cache, repo);
  const std::vector<std::string> snapshots = snapshots_of(folder);
  if (hub_cache.empty() || snapshots.empty()) {
    return Error{
        Errc::io,
        fmt::format("{}: no such file or folder, and {} is not in the hub's cache ({}): fetch it with "
                    "`clef-tool fetch {}`",
                    text, repo, hub_cache.empty() ? "none: HOME is not set" : hub_cache.string(), text.substr(0, at))};
  }
  const auto is_there = [&](const std::string& commit) {
    return !commit.empty() && std::find(snapshots.begin(), snapshots.end(), commit) != snapshots.end();
  };
  if (!revision.empty()) {
    if (is_there(revision)) return folder / "snapshots" / revision;
    if (const std::string commit = commit_of(folder, revision); is_there(commit)) return folder / "snapshots" / commit;
  } else {
    if (const std::string commit = commit_of(folder, "main"); is_there(commit)) return folder / "snapshots" / commit;
    if (snapshots.size() == 1) return folder / "snapshots" / snapshots.front();
  }
  std::string list;
  for (const std::string& commit : snapshots) list += fmt::format("\n  {}@{}", repo, commit);
  return Error{Errc::io, fmt::format("{}: the hub's cache has not this revision of {}, but:{}", text, repo, list)};
}

std::optional<std::string> cached_repo(const fs::path& folder) {
  const fs::path path = folder.has_filename() ? folder : folder.parent_path();
  if (path.parent_path().filename() != "snapshots") return std::nullopt;
  const std::string name = path.parent_path().parent_path().filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string rest = name.substr(kPrefix.size());
  const std::size_t dashes = rest.find("--");
  if (dashes == std::string::npos) return std::nullopt;
  return rest.substr(0, dashes) + "/" + rest.substr(dashes + 2);
}

}  // namespace clef
