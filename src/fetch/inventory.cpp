#include "fetch/inventory.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "fetch/digest.h"

namespace clef::fetch {

namespace {

constexpr std::size_t kMaxEntries = 100'000;  // a home folder given by mistake must not keep us long

struct Found {
  std::string path;
  std::filesystem::path real;  // what to read
};

// Sorts every entry below `folder` into the inventory; files of the right size are left for their digests.
Status walk(const std::filesystem::path& folder, const Manifest& manifest, const InventoryOptions& options,
            Inventory& inventory, std::vector<Found>& to_hash) {
  namespace fs = std::filesystem;
  std::error_code failure;
  const auto stopped_at = [&](const fs::path& path) {
    return Error{Errc::io, fmt::format("{}: cannot read: {}", path.string(), failure.message())};
  };
  std::set<std::string, std::less<>> seen;
  fs::recursive_directory_iterator entry(folder, failure);
  if (failure) return stopped_at(folder);
  std::size_t count = 0;
  for (; entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    if (failure) return stopped_at(folder);
    if (++count > kMaxEntries) {
      return Error{Errc::bad_model,
                   fmt::format("{}: more than {} files: not a model's folder", folder.string(), kMaxEntries)};
    }
    const std::string path = entry->path().lexically_relative(folder).generic_string();
    struct stat info {};
    if (::lstat(entry->path().c_str(), &info) != 0) continue;  // gone since the folder was read
    if (S_ISDIR(info.st_mode)) {
      if (path == ".cache") entry.disable_recursion_pending();
      continue;
    }
    const ManifestFile* expected = manifest.find(path);
    fs::path real = entry->path();
    if (S_ISLNK(info.st_mode)) {
      real = fs::canonical(entry->path(), failure);
      const bool leads_to_file = !failure && ::stat(real.c_str(), &info) == 0 && S_ISREG(info.st_mode);
      failure.clear();
      if (!options.follow_links || !leads_to_file) {
        inventory.linked.push_back(path);
        if (expected != nullptr) seen.insert(path);
        continue;
      }
    }
    if (!S_ISREG(info.st_mode)) {
      inventory.odd.push_back(path);
      if (expected != nullptr) seen.insert(path);
    } else if (expected == nullptr) {
      if (!options.ignore_extra) inventory.extra.push_back(path);
    } else {
      seen.insert(path);
      const auto size = static_cast<std::uint64_t>(info.st_size);
      if (size == expected->size) {
        to_hash.push_back({path, std::move(real)});
      } else {
        inventory.changed.push_back(fmt::format("{}: expected {} bytes, got {}", path, expected->size, size));
        inventory.changed_paths.push_back(path);
      }
    }
  }
  for (const ManifestFile& file : manifest.files) {
    if (!seen.contains(file.path)) inventory.missing.push_back(file.path);
  }
  return {};
}

// Takes the digests, largest file first, so that threads end together.
Status hash_all(const Manifest& manifest, const InventoryOptions& options, std::vector<Found> to_hash,
                Inventory& inventory) {
  const auto size_of = [&](const Found& found) { return manifest.find(found.path)->size; };
  std::stable_sort(to_hash.begin(), to_hash.end(),
                   [&](const Found& a, const Found& b) { return size_of(a) > size_of(b); });
  std::uint64_t total = 0;
  for (const Found& found : to_hash) total += size_of(found);
  std::atomic<std::size_t> next = 0;
  std::atomic<std::uint64_t> done = 0;
  std::atomic<bool> stop = false;
  std::mutex mutex;
  Status first_failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < to_hash.size() && !stop; i = next++) {
      const ManifestFile& expected = *manifest.find(to_hash[i].path);
      const auto digest =
          digest_file(to_hash[i].real, *digest_kind(expected.digest), expected.size, [&](std::uint64_t bytes) {
            done += bytes;
            return !stop && (!options.progress || options.progress(done, total));
          });
      const std::lock_guard lock(mutex);
      if (!digest) {
        stop = true;
        if (first_failure) first_failure = digest.error();
      } else if (*digest == expected.digest) {
        inventory.right.push_back(expected.path);
      } else {
        inventory.changed.push_back(fmt::format("{}: expected {} {}, got {}", expected.path,
                                                name_of(*digest_kind(expected.digest)), expected.digest, *digest));
        inventory.changed_paths.push_back(expected.path);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < options.num_threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return first_failure;
}

void list(std::string& out, std::string_view kind, const std::vector<std::string>& names, std::size_t most) {
  for (std::size_t i = 0; i < names.size() && i < most; ++i) out += fmt::format("{} {}\n", kind, names[i]);
  if (names.size() > most) out += fmt::format("{} {} more\n", kind, names.size() - most);
}

}  // namespace

Result<Inventory> take_inventory(const std::filesystem::path& folder, const Manifest& manifest,
                                 const InventoryOptions& options) {
  Inventory inventory;
  std::vector<Found> to_hash;
  TRY(walk(folder, manifest, options, inventory, to_hash));
  TRY(hash_all(manifest, options, std::move(to_hash), inventory));
  for (auto* names : {&inventory.missing, &inventory.extra, &inventory.linked, &inventory.odd, &inventory.changed,
                      &inventory.changed_paths, &inventory.right}) {
    std::sort(names->begin(), names->end());
  }
  return inventory;
}

std::string describe(const Inventory& inventory, std::size_t most) {
  std::string out;
  list(out, "MISSING", inventory.missing, most);
  list(out, "EXTRA", inventory.extra, most);
  list(out, "LINKED", inventory.linked, most);
  list(out, "NOT A FILE", inventory.odd, most);
  list(out, "CHANGED", inventory.changed, most);
  return out;
}

}  // namespace clef::fetch
