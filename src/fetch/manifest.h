// What a model's folder has to hold: every file by path, size and digest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace clef::fetch {

struct ManifestFile {
  std::string path;  // below the folder, with '/'
  std::uint64_t size = 0;
  std::string digest;  // 64 hexadecimal digits: SHA-256; 40: git's SHA-1 of a blob
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  std::string repo;      // "Cloudflare/clef-flash"
  std::string revision;  // the commit, 40 hexadecimal digits
  // Whether these are all the files. A manifest that is not complete pins only those that it names.
  bool is_complete = true;
  std::vector<ManifestFile> files;  // sorted by path

  std::uint64_t total_bytes() const;
  const ManifestFile* find(std::string_view path) const;
};

inline constexpr std::size_t kMaxManifestFiles = 10'000;

// JSON as to_text writes it: {"repo", "revision", "complete"?, "files": {PATH: {"size", "hash"}}}. Errc::bad_model
// names `label` and the member.
Result<Manifest> parse_manifest(std::string_view label, std::string_view text);
std::string to_text(const Manifest& manifest);

// A path that stays below its folder on any system and is none of our own names there.
bool is_safe_path(std::string_view path);

// Errc::bad_model when the files of `manifest` are not those that `pins` names, with their sizes and digests.
Status check_pins(const Manifest& manifest, const Manifest& pins);

// The manifests that this program was built with.
std::span<const Manifest> known_manifests();
const Manifest* known_manifest(std::string_view repo, std::string_view revision);

// The releases by their short names.
struct Release {
  std::string_view name;      // "clef-flash"
  std::string_view repo;      // "Cloudflare/clef-flash"
  std::string_view revision;  // what is fetched unless another is asked for
};
std::span<const Release> releases();

}  // namespace clef::fetch
