// A folder held against its manifest: what is missing, what is too much, what is not what it should be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "fetch/manifest.h"

namespace clef::fetch {

struct Inventory {
  std::vector<std::string> missing;        // of the manifest, and not there
  std::vector<std::string> extra;          // there, and not of the manifest
  std::vector<std::string> linked;         // symbolic links, to files or folders
  std::vector<std::string> odd;            // neither file, folder nor link
  std::vector<std::string> changed;        // of another size or digest: "PATH: expected ..., got ..."
  std::vector<std::string> changed_paths;  // the same files by path
  std::vector<std::string> right;          // as the manifest says
  bool is_exact() const { return missing.empty() && is_sound(); }
  bool is_sound() const { return extra.empty() && linked.empty() && odd.empty() && changed.empty(); }
};

struct InventoryOptions {
  // The files of the hub's shared cache are links to its blobs. Links that lead to regular files are followed.
  bool follow_links = false;
  bool ignore_extra = false;  // for a manifest that does not name every file
  int num_threads = 2;        // that hash
  // Bytes hashed so far and in all, from any thread; false stops.
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;
};

// Names and sizes first; digests are taken of the files whose sizes agree. `.cache` is skipped: what stands there is
// the fetching's own. Errors are for what cannot be read at all; Errc::unavailable when stopped.
Result<Inventory> take_inventory(const std::filesystem::path& folder, const Manifest& manifest,
                                 const InventoryOptions& options);

// A line a finding, for people; at most `most` of each kind, then a count.
std::string describe(const Inventory& inventory, std::size_t most = 20);

}  // namespace clef::fetch
