// From a model's name to a folder that holds exactly what its manifest says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/progress.h"
#include "base/result.h"
#include "fetch/download.h"
#include "fetch/inventory.h"

namespace clef::fetch {

struct Source {
  std::string repo;      // "Cloudflare/clef-flash"
  std::string revision;  // a commit, or a branch or tag
  std::string name;      // of the folder, unless another is asked for
};

// "clef-flash" and the like with their pinned revisions, or "ORG/NAME". An empty revision means the pinned one, or
// main.
Result<Source> find_source(std::string_view model, std::string_view revision);

struct FetchOptions {
  Source source;
  std::filesystem::path folder;
  DownloadOptions download;
  bool skip_download = false;  // check what is there, and use no network
  bool repair = false;         // files that differ are fetched again, instead of refused
  int hash_threads = 2;
};

struct FetchEvents {
  ProgressFunction checking;                     // bytes hashed of what is there
  ProgressFunction fetching;                     // bytes that arrive
  std::function<void(const std::string&)> note;  // one line for people, from any thread
};

struct FetchReport {
  Manifest manifest;
  DownloadTotals totals;
  std::uint64_t checked_bytes = 0;  // that were there already
  // The digests were not known to this program: the hub's own were taken, and are kept in the folder from now on.
  bool is_first_use = false;
};

// Fetches what is missing and checks every byte. A folder with files that are not the model's, with links, or with
// files that differ is refused, each file named. On any error what was fetched stays for the next call, and open_model
// takes the folder for half a download.
Result<FetchReport> fetch(const FetchOptions& options, const FetchEvents& events);

}  // namespace clef::fetch
