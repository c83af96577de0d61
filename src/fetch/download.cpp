#include "fetch/download.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "base/output_file.h"
#include "base/paths.h"
#include "fetch/digest.h"
#include "fetch/partial_file.h"

namespace clef::fetch {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kSegmentBytes = std::uint64_t{64} << 20;  // of one request
constexpr std::uint64_t kNoteBytes = std::uint64_t{4} << 20;      // what a kill may cost each connection
constexpr auto kProgressStep = std::chrono::milliseconds(100);
constexpr std::uint64_t kSpareBytes = std::uint64_t{16} << 20;  // for journals and folders

// libcurl hands the body on in pieces of 16 KiB; written and hashed one by one they cost twice the time.
class Gather {
 public:
  Gather(PartialFile& partial, std::uint64_t first) : partial_(partial), first_(first), noted_(first) {
    buffer_.reserve(kGatherBytes);
  }

  std::uint64_t end() const { return first_ + buffer_.size(); }  // of what has come

  Status add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), kGatherBytes - buffer_.size());
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
      bytes = bytes.subspan(count);
      if (buffer_.size() == kGatherBytes) TRY(write());
    }
    return first_ - noted_ >= kNoteBytes ? note() : Status();
  }
  // Everything that has come, on the disk and in the journal.
  Status flush() {
    TRY(write());
    return note();
  }

 private:
  static constexpr std::size_t kGatherBytes = std::size_t{512} << 10;  // stays in a core's second-level cache

  Status write() {
    if (buffer_.empty()) return {};
    TRY(partial_.write(first_, buffer_));
    first_ += buffer_.size();
    buffer_.clear();
    return {};
  }
  Status note() {
    TRY(partial_.note({noted_, first_}));
    noted_ = first_;
    return {};
  }

  PartialFile& partial_;
  std::uint64_t first_, noted_;
  std::vector<std::byte> buffer_;
};

struct FileTask {
  const ManifestFile* file = nullptr;
  std::unique_ptr<PartialFile> partial;  // open while the file is worked on
  bool is_open = false;
  bool may_be_damaged = false;     // bytes of an earlier run are in it, whose digest nobody has seen
  std::vector<ByteRange> pending;  // last first
  int active = 0;                  // connections at work on it
  bool is_finished = false;
  std::string location;  // where the hub sent us for it; addresses like these are signed, and expire
};

struct Segment {
  FileTask* task;
  PartialFile* partial;
  ByteRange range;
};

// "bytes FIRST-LAST/TOTAL"
std::optional<std::pair<ByteRange, std::uint64_t>> parse_content_range(const std::string& text) {
  unsigned long long first = 0, last = 0, total = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "bytes %llu-%llu/%llu%c", &first, &last, &total, &rest) != 3) return std::nullopt;
  if (last < first || last >= total) return std::nullopt;
  return std::pair{ByteRange{first, last + 1}, std::uint64_t{total}};
}

// An ETag's text without quotes and the mark of a weak one.
std::string_view bare_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return etag;
}

// What the hub says of a file, held against the manifest before a byte of it is taken.
Status check_hub_head(const Manifest& manifest, const ManifestFile& file, const HttpHead& head) {
  if (head.status >= 400) return {};
  const auto differs = [&](std::string_view what, std::string_view expected, std::string_view got) {
    return Error{Errc::bad_model, fmt::format("{}: the hub offers another file: {} expected {}, got {}", file.path,
                                              what, expected, got)};
  };
  if (const std::string* commit = head.find("x-repo-commit"); commit != nullptr && *commit != manifest.revision) {
    return differs("commit", manifest.revision, *commit);
  }
  const std::string* linked = head.find("x-linked-etag");
  const std::string* etag = linked != nullptr ? linked : head.find("etag");
  if (etag != nullptr) {
    const std::string_view bare = bare_etag(*etag);
    if (digest_kind(bare) == digest_kind(file.digest) && bare != file.digest) {
      return differs(name_of(*digest_kind(file.digest)), file.digest, bare);
    }
  }
  if (const std::string* size = head.find("x-linked-size"); size != nullptr && *size != std::to_string(file.size)) {
    return differs("size", std::to_string(file.size), *size);
  }
  return {};
}

class Downloader {
 public:
  Downloader(const Manifest& manifest, fs::path folder, fs::path partials, const DownloadOptions& options,
             const DownloadEvents& events)
      : manifest_(manifest),
        folder_(std::move(folder)),
        partials_(std::move(partials)),
        options_(options),
        events_(events) {}

  Result<DownloadTotals> run(std::span<const ManifestFile> files);

 private:
  Status prepare(std::span<const ManifestFile> files);
  void work();
  Result<std::optional<Segment>> take();
  Status open(FileTask& task);
  Status fetch_segment(HttpSession& session, const Segment& segment);
  Status complete(FileTask& task);
  Status place(FileTask& task);
  Status make_parents(const std::string& path) const;
  bool wait(const std::string& why, std::chrono::milliseconds delay);
  void fail(Error error);
  fs::path partial_path(const ManifestFile& file) const;
  void note(const std::string& line) const {
    if (events_.note) events_.note(line);
  }

  const Manifest& manifest_;
  fs::path folder_, partials_;
  const DownloadOptions& options_;
  const DownloadEvents& events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<FileTask> tasks_;  // theirs and below: under mutex_
  std::optional<Error> error_;
  int running_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> fetched_ = 0;
  std::uint64_t resumed_ = 0, to_fetch_ = 0;
};

// By content and by place: two files may hold the same bytes.
fs::path Downloader::partial_path(const ManifestFile& file) const {
  Digest place(DigestKind::sha256, 0);
  place.update(std::as_bytes(std::span(file.path)));
  return partials_ / fmt::format("{}-{}.part", file.digest, place.hex().substr(0, 16));
}

Result<DownloadTotals> Downloader::run(std::span<const ManifestFile> files) {
  TRY(prepare(files));
  const int count = std::max(1, options_.connections);
  running_ = count;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) threads.emplace_back([this] { work(); });
  {
    std::unique_lock lock(mutex_);
    while (running_ > 0) {
      changed_.wait_for(lock, kProgressStep, [&] { return running_ == 0; });
      lock.unlock();
      if (events_.progress) events_.progress(std::min<std::uint64_t>(fetched_, to_fetch_), to_fetch_);
      lock.lock();
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (error_) return *std::move(error_);
  return DownloadTotals{.fetched_bytes = fetched_, .resumed_bytes = resumed_};
}

Status Downloader::prepare(std::span<const ManifestFile> files) {
  std::uint64_t to_place = 0;
  for (const ManifestFile& file : files) {
    FileTask task;
    task.file = &file;
    std::uint64_t missing = file.size, unplaced = file.size;
    if (path_exists(partial_path(file))) {
      const auto partial = TRY(PartialFile::open(partial_path(file), file));
      missing = file.size - partial->bytes_done();
      unplaced = file.size - partial->bytes_placed();
      resumed_ += file.size - missing;
    }
    to_fetch_ += missing;
    to_place += unplaced;
    tasks_.push_back(std::move(task));
  }
  // Partial files are sparse: what they do not hold yet takes room only as it arrives. What an earlier run wrote and
  // had no time to note is fetched again into the room that it has.
  if (to_fetch_ > 0) TRY(require_space(partials_, to_place + kSpareBytes));
  return {};
}

void Downloader::work() {
  HttpSession session(options_.http);
  for (;;) {
    const auto segment = take();
    if (!segment) fail(segment.error());
    if (!segment || !segment->has_value()) break;
    FileTask& task = *(*segment)->task;
    Status status = fetch_segment(session, **segment);
    if (status && !stop_) status = (*segment)->partial->hash_forward();
    bool is_last = false;
    {
      const std::lock_guard lock(mutex_);
      --task.active;
      is_last = task.pending.empty() && task.active == 0 && !task.is_finished && !stop_;
      if (is_last && status) task.active = 1;  // ours until it is complete
    }
    if (status && is_last) {
      status = complete(task);
      const std::lock_guard lock(mutex_);
      --task.active;
    }
    if (!status) fail(status.error());
  }
  const std::lock_guard lock(mutex_);
  if (--running_ == 0) changed_.notify_all();
}

// The next piece of the file that has the fewest connections: so each goes on where its bytes are hashed as they come.
Result<std::optional<Segment>> Downloader::take() {
  const std::lock_guard lock(mutex_);
  if (stop_) return std::optional<Segment>();
  FileTask* best = nullptr;
  for (FileTask& task : tasks_) {
    if (task.is_finished || (task.is_open && task.pending.empty())) continue;
    if (best == nullptr || task.active < best->active) best = &task;
  }
  if (best == nullptr) return std::optional<Segment>();
  if (!best->is_open) TRY(open(*best));
  Segment segment{.task = best, .partial = best->partial.get(), .range = {}};
  if (!best->pending.empty()) {  // an empty or an already whole file has none, and is completed at once
    ByteRange& next = best->pending.back();
    segment.range = {next.first, std::min(next.end, next.first + kSegmentBytes)};
    next.first = segment.range.end;
    if (next.first == next.end) best->pending.pop_back();
  }
  ++best->active;
  return std::optional(segment);
}

Status Downloader::open(FileTask& task) {
  task.partial = TRY(PartialFile::open(partial_path(*task.file), *task.file));
  task.is_open = true;
  task.may_be_damaged = task.partial->is_resumed();
  task.pending = task.partial->missing();
  std::reverse(task.pending.begin(), task.pending.end());
  return {};
}

Status Downloader::fetch_segment(HttpSession& session, const Segment& segment) {
  FileTask& task = *segment.task;
  const ManifestFile& file = *task.file;
  const std::string hub_url = file_url(options_.hub, manifest_, file.path);
  const std::uint64_t end = segment.range.end;
  Gather gather(*segment.partial, segment.range.first);
  for (int tries = 1; gather.end() < end;) {
    if (stop_) break;
    std::string url = hub_url;
    {
      const std::lock_guard lock(mutex_);
      if (!task.location.empty()) url = task.location;
    }
    Status refusal;          // what is wrong with the answer, for good
    std::uint64_t skip = 0;  // bytes to pass over, of a server that sends the whole where a range was asked for
    const std::uint64_t at = gather.end();  // where this try begins
    const auto on_head = [&](const HttpHead& head, const std::string& hop) {
      if (hop == hub_url) refusal = check_hub_head(manifest_, file, head);
      if (head.status == 206) {
        const std::string* field = head.find("content-range");
        const auto range = field == nullptr ? std::nullopt : parse_content_range(*field);
        if (!range || range->first.first != at || range->second != file.size) {
          refusal = Error{Errc::bad_model,
                          fmt::format("{}: asked for bytes {}-{} of {}, the server answers '{}'", file.path, at,
                                      end - 1, file.size, field == nullptr ? "no Content-Range" : *field)};
        }
      } else if (head.status == 200) {
        const std::string* length = head.find("content-length");
        if (length != nullptr && *length != std::to_string(file.size)) {
          refusal = Error{Errc::bad_model,
                          fmt::format("{}: expected {} bytes, the server has {}", file.path, file.size, *length)};
        }
        skip = at;
      }
      return refusal.has_value() && !stop_;
    };
    const auto on_body = [&](std::span<const std::byte> bytes) {
      if (stop_) return false;
      const auto passed = static_cast<std::size_t>(std::min<std::uint64_t>(skip, bytes.size()));
      skip -= passed;
      bytes = bytes.subspan(passed);
      const auto wanted =
          bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), end - gather.end())));
      refusal = gather.add(wanted);
      if (!refusal) return false;
      fetched_ += wanted.size();
      if (wanted.size() < bytes.size() && end == file.size) {
        refusal = Error{Errc::bad_model, fmt::format("{}: the server sends more than {} bytes", file.path, file.size)};
      }
      return refusal.has_value() && wanted.size() == bytes.size();
    };
    const bool is_whole = at == 0 && end == file.size;
    const auto outcome = session.get({.url = url, .first = at, .end = is_whole ? 0 : end}, on_head, on_body);
    const Status kept = gather.flush();  // what came before a failure, too
    if (refusal && !kept) refusal = kept;
    if (!refusal) return refusal;
    const long status = outcome.response.head.status;
    if (!outcome.failure && (status == 200 || status == 206) && outcome.response.url != url) {
      const std::lock_guard lock(mutex_);
      task.location = outcome.response.url;
    }
    if (gather.end() == end || stop_) break;

    if (gather.end() > at) tries = 1;
    Error error{Errc::io, ""};
    bool is_lasting = false;
    if (outcome.failure) {
      error.message = fmt::format("{}: {}", file.path, outcome.failure->message);
      is_lasting = outcome.failure->is_lasting;
    } else if (status == 200 || status == 206) {
      error.message = fmt::format("{}: the server ended the answer {} bytes early", file.path, end - gather.end());
    } else {
      error = status_error(options_.hub, file.path, outcome.response);
      is_lasting = !is_passing(status);
      const bool is_elsewhere = outcome.response.url != hub_url;
      if (is_elsewhere && (status == 400 || status == 401 || status == 403 || status == 404 || status == 410)) {
        // A signed address that has expired: the hub gives another.
        is_lasting = false;
        const std::lock_guard lock(mutex_);
        task.location.clear();
      }
    }
    if (is_lasting || tries >= options_.retry.max_tries) return error;
    const auto asked = asked_delay(outcome.response.head, std::time(nullptr));
    if (asked && *asked > options_.retry.longest_asked) return error;
    thread_local std::minstd_rand random(std::random_device{}());
    const double jitter = std::uniform_real_distribution<double>(0, 1)(random);
    if (!wait(error.message, asked ? *asked : backoff(options_.retry, tries, jitter))) break;
    ++tries;
  }
  return {};
}

Status Downloader::complete(FileTask& task) {
  const std::string digest = TRY(task.partial->finish());
  if (digest == task.file->digest) return place(task);
  const std::string differs = fmt::format("{}: expected {} {}, got {}", task.file->path,
                                          name_of(*digest_kind(task.file->digest)), task.file->digest, digest);
  task.partial->discard();  // no later run may go on with it
  if (!task.may_be_damaged) {
    return Error{Errc::bad_model, fmt::format("{}: the bytes that came are not the file's; fetch again", differs)};
  }
  note(fmt::format("{} after bytes of an earlier run; fetched anew", differs));
  const std::lock_guard lock(mutex_);
  to_fetch_ += task.file->size;
  return open(task);
}

Status Downloader::place(FileTask& task) {
  TRY(make_parents(task.file->path));
  TRY(task.partial->place(folder_ / task.file->path));
  note(fmt::format("{}  {} bytes  {} {}", task.file->path, task.file->size, name_of(*digest_kind(task.file->digest)),
                   task.file->digest));
  const std::lock_guard lock(mutex_);
  task.is_finished = true;
  task.partial.reset();
  return {};
}

// The folders above a file of the manifest. A link among them could lead out of the model's folder.
Status Downloader::make_parents(const std::string& path) const {
  fs::path at = folder_;
  for (const fs::path& part : fs::path(path).parent_path()) {
    at /= part;
    std::error_code failure;
    if (fs::is_symlink(fs::symlink_status(at, failure))) {
      return Error{Errc::bad_model, fmt::format("{}: a symbolic link where a folder should be", at.string())};
    }
    fs::create_directory(at, failure);
    if (failure) return Error{Errc::io, fmt::format("{}: cannot create: {}", at.string(), failure.message())};
  }
  return {};
}

bool Downloader::wait(const std::string& why, std::chrono::milliseconds delay) {
  note(fmt::format("{}; trying again in {:.1f} s", why, static_cast<double>(delay.count()) / 1000));
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, delay, [&] { return stop_.load(); });
  return !stop_;
}

void Downloader::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  stop_ = true;
  changed_.notify_all();
}

}  // namespace

Result<DownloadTotals> download(const Manifest& manifest, std::span<const ManifestFile> files, const fs::path& folder,
                                const fs::path& partials, const DownloadOptions& options,
                                const DownloadEvents& events) {
  return Downloader(manifest, folder, partials, options, events).run(files);
}

}  // namespace clef::fetch
