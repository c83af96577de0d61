// Files of a manifest brought from the hub into a folder, several at once and the large ones in parallel ranges.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "fetch/hub.h"
#include "fetch/manifest.h"
#include "fetch/retry.h"

namespace clef::fetch {

struct DownloadOptions {
  HubSettings hub;
  HttpOptions http;
  RetryPolicy retry;
  int connections = 8;
};

struct DownloadEvents {
  ProgressFunction progress;                     // bytes of this run, from the caller's thread
  std::function<void(const std::string&)> note;  // one line for people, from any thread
};

struct DownloadTotals {
  std::uint64_t fetched_bytes = 0;  // over the network
  std::uint64_t resumed_bytes = 0;  // from an earlier run
};

// Each file is hashed while it arrives and stands under its name only when its digest is the manifest's. Whatever ends
// this early, a kill too, leaves work that the next call goes on with. `partials` is where unfinished files lie, on the
// file system of `folder`.
Result<DownloadTotals> download(const Manifest& manifest, std::span<const ManifestFile> files,
                                const std::filesystem::path& folder, const std::filesystem::path& partials,
                                const DownloadOptions& options, const DownloadEvents& events);

}  // namespace clef::fetch
