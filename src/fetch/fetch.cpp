#include "fetch/fetch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "base/download_state.h"
#include "base/output_file.h"
#include "base/paths.h"
#include "fetch/digest.h"

namespace clef::fetch {

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMaxManifestBytes = std::uintmax_t{16} << 20;

Status make_folder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (!failure && !is_folder(folder)) failure = std::make_error_code(std::errc::not_a_directory);
  if (failure) return Error{Errc::io, fmt::format("{}: cannot create: {}", folder.string(), failure.message())};
  return {};
}

// One fetch at a time in a folder.
class FolderLock {
 public:
  static Result<FolderLock> take(const fs::path& folder) {
    const fs::path path = folder / kDownloadFolder / "lock";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) return Error{Errc::io, fmt::format("{}: cannot create: {}", path.string(), std::strerror(errno))};
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int number = errno;
      ::close(fd);
      if (number == EWOULDBLOCK) {
        return Error{Errc::busy, fmt::format("{}: another fetch is at work there", folder.string())};
      }
      return Error{Errc::io, fmt::format("{}: cannot lock: {}", path.string(), std::strerror(number))};
    }
    return FolderLock(fd);
  }
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

// The manifest that an earlier fetch left in the folder.
Result<std::optional<Manifest>> recorded_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestFile;
  if (!path_exists(path)) return std::optional<Manifest>();
  std::error_code failure;
  if (fs::file_size(path, failure) > kMaxManifestBytes || failure) {
    return Error{Errc::bad_model, fmt::format("{}: cannot be a manifest; remove it", path.string())};
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return Error{Errc::io, fmt::format("{}: cannot read", path.string())};
  return std::optional(TRY(parse_manifest(path.string(), text)));
}

Error no_manifest(const FetchOptions& options) {
  return Error{
      Errc::bad_request,
      fmt::format("{} at {}: nothing to check {} against: the digests of this revision are neither built in nor "
                  "kept in the folder; run without --skip-download once",
                  options.source.repo, options.source.revision, options.folder.string())};
}

struct Plan {
  Manifest manifest;
  bool is_first_use = false;
};

// What the folder must hold, without the network.
Result<std::optional<Plan>> plan_offline(const FetchOptions& options) {
  const Source& source = options.source;
  const Manifest* known = known_manifest(source.repo, source.revision);
  if (known != nullptr && known->is_complete) return std::optional(Plan{*known, false});
  const auto recorded = TRY(recorded_manifest(options.folder));
  if (!recorded || recorded->repo != source.repo) return std::optional<Plan>();
  if (is_commit(source.revision) && recorded->revision != source.revision) return std::optional<Plan>();
  if (known != nullptr) TRY(check_pins(*recorded, *known));
  return std::optional(Plan{*recorded, false});
}

Result<Plan> plan_online(const FetchOptions& options, const FetchEvents& events) {
  const Source& source = options.source;
  if (options.download.hub.is_offline) {
    return Error{Errc::unavailable, fmt::format("{}: HF_HUB_OFFLINE is set; unset it to fetch", source.repo)};
  }
  Hub hub(options.download.hub, options.download.http, options.download.retry,
          [&](const std::string& why, std::chrono::milliseconds delay) {
            if (events.note) {
              events.note(fmt::format("{}; trying again in {:.1f} s", why, static_cast<double>(delay.count()) / 1000));
            }
            ::usleep(static_cast<useconds_t>(delay.count() * 1000));
            return true;
          });
  const std::string commit =
      is_commit(source.revision) ? source.revision : TRY(hub.commit_of(source.repo, source.revision));
  const Manifest* known = known_manifest(source.repo, commit);
  if (known != nullptr && known->is_complete) return Plan{*known, false};
  Manifest manifest = TRY(hub.list(source.repo, commit));
  if (known != nullptr) TRY(check_pins(manifest, *known));
  const auto recorded = TRY(recorded_manifest(options.folder));
  if (recorded && recorded->repo == source.repo && recorded->revision == commit) {
    TRY(check_pins(manifest, *recorded));
    return Plan{*recorded, false};
  }
  return Plan{std::move(manifest), true};
}

Result<Inventory> check(const FetchOptions& options, const Manifest& manifest, const FetchEvents& events) {
  return take_inventory(options.folder, manifest,
                        {.num_threads = options.hash_threads, .progress = [&](std::uint64_t done, std::uint64_t total) {
                           if (events.checking) events.checking(done, total);
                           return true;
                         }});
}

Error refused(const fs::path& folder, const Inventory& inventory, bool may_repair) {
  return Error{
      Errc::bad_model,
      fmt::format("{}: not what the manifest says, and left as it is:\n{}{}", folder.string(), describe(inventory),
                  may_repair && !inventory.changed.empty() ? "(--repair fetches changed files again)"
                                                           : "(move what is not the model's out of the folder)")};
}

}  // namespace

Result<Source> find_source(std::string_view model, std::string_view revision) {
  for (const Release& release : releases()) {
    if (model == release.name || model == release.repo) {
      return Source{std::string(release.repo), std::string(revision.empty() ? release.revision : revision),
                    std::string(release.name)};
    }
  }
  if (!is_repo_name(model)) {
    std::string names;
    for (const Release& release : releases()) names += fmt::format("{}, ", release.name);
    return Error{Errc::bad_request, fmt::format("'{}': expected {}or ORG/NAME", model, names)};
  }
  const std::string text(revision.empty() ? "main" : revision);
  if (text.size() > 200 || text.find("..") != std::string::npos) {
    return Error{Errc::bad_request, fmt::format("'{}': expected a branch, a tag or a commit", text)};
  }
  return Source{std::string(model), text, std::string(model.substr(model.find('/') + 1))};
}

Result<FetchReport> fetch(const FetchOptions& options, const FetchEvents& events) {
  const fs::path& folder = options.folder;
  if (options.skip_download) {
    const auto plan = TRY(plan_offline(options));
    if (!plan) return no_manifest(options);
    if (!is_folder(folder)) return Error{Errc::io, fmt::format("{}: no such folder", folder.string())};
    const Inventory inventory = TRY(check(options, plan->manifest, events));
    if (!inventory.is_exact()) return refused(folder, inventory, false);
    return FetchReport{plan->manifest, {}, plan->manifest.total_bytes(), false};
  }

  Plan plan = TRY(plan_online(options, events));
  TRY(make_folder(folder / kDownloadFolder));
  const FolderLock lock = TRY(FolderLock::take(folder));
  const auto recorded = TRY(recorded_manifest(folder));
  if (recorded && recorded->repo != plan.manifest.repo) {
    return Error{Errc::bad_request, fmt::format("{}: holds {} at {}; fetch {} into another folder", folder.string(),
                                                recorded->repo, recorded->revision, plan.manifest.repo)};
  }

  FetchReport report{plan.manifest, {}, 0, plan.is_first_use};
  const Inventory inventory = TRY(check(options, plan.manifest, events));
  const bool has_strange = !inventory.extra.empty() || !inventory.linked.empty() || !inventory.odd.empty();
  if (has_strange || (!inventory.changed.empty() && !options.repair)) {
    return refused(folder, inventory, !has_strange && !options.repair);
  }
  std::vector<ManifestFile> wanted;
  for (const auto* paths : {&inventory.missing, &inventory.changed_paths}) {
    for (const std::string& path : *paths) wanted.push_back(*plan.manifest.find(path));
  }
  report.checked_bytes = plan.manifest.total_bytes();
  for (const ManifestFile& file : wanted) report.checked_bytes -= file.size;

  const fs::path partials = folder / kIncompleteFolder;
  if (!wanted.empty()) {
    TRY(make_folder(partials));  // from here on open_model knows the folder for half a download
    if (!recorded || recorded->revision != plan.manifest.revision) {
      TRY(write_file(folder / kManifestFile, to_text(plan.manifest)));
    }
    for (const std::string& path : inventory.changed_paths) {
      std::error_code ignored;
      fs::remove(folder / path, ignored);
    }
    report.totals = TRY(download(plan.manifest, wanted, folder, partials, options.download,
                                 {.progress = events.fetching, .note = events.note}));
  } else if (!recorded) {
    TRY(write_file(folder / kManifestFile, to_text(plan.manifest)));
  }

  std::error_code failure;
  fs::remove_all(partials, failure);
  if (failure) return Error{Errc::io, fmt::format("{}: cannot remove: {}", partials.string(), failure.message())};
  return report;
}

}  // namespace clef::fetch
