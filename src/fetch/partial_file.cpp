#include "fetch/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

namespace clef::fetch {

namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;
constexpr off_t kMaxJournalBytes = off_t{64} << 20;

Error io_error(const std::filesystem::path& path, const char* what) {
  const int number = errno;
  const char* advice = number == ENOSPC   ? "; free some space and fetch again, what is there is kept"
                       : number == EDQUOT ? "; the quota is used up; what is there is kept"
                                          : "";
  return Error{Errc::io, fmt::format("{}: {}: {}{}", path.string(), what, std::strerror(number), advice)};
}

// Joins [first, end) to the ranges.
void insert(std::map<std::uint64_t, std::uint64_t>& ranges, std::uint64_t first, std::uint64_t end) {
  if (first >= end) return;
  auto next = ranges.upper_bound(first);
  if (next != ranges.begin() && std::prev(next)->second >= first) {
    --next;
    first = next->first;
    end = std::max(end, next->second);
    next = ranges.erase(next);
  }
  while (next != ranges.end() && next->first <= end) {
    end = std::max(end, next->second);
    next = ranges.erase(next);
  }
  ranges.emplace(first, end);
}

std::string journal_head(const ManifestFile& file) {
  return fmt::format("cleffa partial 1 {} {}\n", file.size, file.digest);
}

Result<std::string> read_whole(int fd, const std::filesystem::path& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return io_error(path, "cannot stat");
  if (info.st_size > kMaxJournalBytes) return std::string();  // none of ours is so long
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t count = ::pread(fd, text.data() + have, text.size() - have, static_cast<off_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(path, "cannot read");
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  text.resize(have);
  return text;
}

// The ranges that whole lines of a journal name; a line that a kill cut short, or that lies outside, does not count.
std::map<std::uint64_t, std::uint64_t> read_ranges(std::string_view lines, std::uint64_t size) {
  std::map<std::uint64_t, std::uint64_t> ranges;
  while (!lines.empty()) {
    const std::size_t newline = lines.find('\n');
    if (newline == std::string_view::npos) break;
    unsigned long long first = 0, end = 0;
    char rest = 0;
    const std::string line(lines.substr(0, newline));
    if (std::sscanf(line.c_str(), "%llu %llu%c", &first, &end, &rest) == 2 && first < end && end <= size) {
      insert(ranges, first, end);
    }
    lines.remove_prefix(newline + 1);
  }
  return ranges;
}

Status append(int fd, const std::filesystem::path& path, std::string_view text) {
  // One write, so that a line is there whole or, after a kill, as a piece that the reader skips.
  const ssize_t count = ::write(fd, text.data(), text.size());
  if (count == static_cast<ssize_t>(text.size())) return {};
  if (count >= 0) errno = ENOSPC;
  return io_error(path, "cannot write");
}

int open_regular(const std::filesystem::path& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  struct stat info {};
  if (fd >= 0 && (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))) {
    ::close(fd);
    errno = EINVAL;
    return -1;
  }
  return fd;
}

}  // namespace

Result<std::unique_ptr<PartialFile>> PartialFile::open(const std::filesystem::path& path, const ManifestFile& file) {
  const auto kind = digest_kind(file.digest);
  CHECK(kind.has_value(), "{} has the digest '{}'", file.path, file.digest);
  std::filesystem::path journal_path = path;
  journal_path += ".done";
  const int fd = open_regular(path, 0);
  if (fd < 0) return io_error(path, "cannot create");
  const int journal = open_regular(journal_path, O_APPEND);
  if (journal < 0) {
    const Error error = io_error(journal_path, "cannot create");
    ::close(fd);
    return error;
  }
  std::unique_ptr<PartialFile> partial(new PartialFile(path, file.size, *kind, fd, journal));
  partial->journal_path_ = journal_path;
  struct stat info {};
  if (::fstat(fd, &info) != 0) return io_error(path, "cannot stat");
  const std::string text = TRY(read_whole(journal, journal_path));
  const std::string head = journal_head(file);
  if (text.starts_with(head) && info.st_size == static_cast<off_t>(file.size)) {
    partial->done_ = read_ranges(std::string_view(text).substr(head.size()), file.size);
    partial->is_resumed_ = !partial->done_.empty();
    if (!text.ends_with('\n')) TRY(append(journal, journal_path, "\n"));
    return partial;
  }
  // The journal first: bytes without one are fetched again, a journal without its bytes must not be.
  if (::ftruncate(journal, 0) != 0) return io_error(journal_path, "cannot write");
  if (::ftruncate(fd, 0) != 0 || ::ftruncate(fd, static_cast<off_t>(file.size)) != 0) {
    return io_error(path, "cannot write");
  }
  TRY(append(journal, journal_path, head));
  return partial;
}

PartialFile::PartialFile(std::filesystem::path path, std::uint64_t size, DigestKind kind, int fd, int journal)
    : path_(std::move(path)), size_(size), fd_(fd), journal_(journal), digest_(kind, size) {}

PartialFile::~PartialFile() {
  if (fd_ >= 0) ::close(fd_);
  if (journal_ >= 0) ::close(journal_);
}

std::vector<ByteRange> PartialFile::missing() const {
  const std::lock_guard lock(ranges_mutex_);
  std::vector<ByteRange> gaps;
  std::uint64_t at = 0;
  for (const auto& [first, end] : done_) {
    if (first > at) gaps.push_back({at, first});
    at = end;
  }
  if (at < size_) gaps.push_back({at, size_});
  return gaps;
}

std::uint64_t PartialFile::bytes_done() const {
  const std::lock_guard lock(ranges_mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [first, end] : done_) bytes += end - first;
  return bytes;
}

std::uint64_t PartialFile::bytes_placed() const {
  constexpr std::uint64_t kBlock = 512;  // of st_blocks, whatever the file system's
  struct stat status {};
  if (::fstat(fd_, &status) != 0) return bytes_done();
  return std::clamp(static_cast<std::uint64_t>(status.st_blocks) * kBlock, bytes_done(), size_);
}

Status PartialFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  CHECK(offset + bytes.size() <= size_, "{}: {} + {} of {}", path_.string(), offset, bytes.size(), size_);
  for (std::size_t written = 0; written < bytes.size();) {
    const ssize_t count =
        ::pwrite(fd_, bytes.data() + written, bytes.size() - written, static_cast<off_t>(offset + written));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(path_, "cannot write");
    written += static_cast<std::size_t>(count);
  }
  if (const std::unique_lock hash(hash_mutex_, std::try_to_lock); hash.owns_lock() && hashed_ == offset) {
    digest_.update(bytes);
    hashed_ += bytes.size();
  }
  const std::lock_guard lock(ranges_mutex_);
  insert(done_, offset, offset + bytes.size());
  return {};
}

Status PartialFile::note(ByteRange range) {
  if (range.first >= range.end) return {};
  return append(journal_, journal_path_, fmt::format("{} {}\n", range.first, range.end));
}

Status PartialFile::hash_forward() {
  const std::unique_lock hash(hash_mutex_, std::try_to_lock);
  return hash.owns_lock() ? hash_until_gap() : Status();
}

Status PartialFile::hash_until_gap() {
  for (;;) {
    std::uint64_t end = 0;
    {
      const std::lock_guard lock(ranges_mutex_);
      const auto next = done_.upper_bound(hashed_);
      if (next == done_.begin()) return {};
      end = std::prev(next)->second;
    }
    if (end <= hashed_) return {};
    buffer_.resize(kReadBytes);
    const std::size_t want = std::min<std::uint64_t>(buffer_.size(), end - hashed_);
    const ssize_t count = ::pread(fd_, buffer_.data(), want, static_cast<off_t>(hashed_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(path_, "cannot read");
    if (count == 0) return Error{Errc::io, fmt::format("{}: became shorter while it was fetched", path_.string())};
    digest_.update(std::span(buffer_).first(static_cast<std::size_t>(count)));
    hashed_ += static_cast<std::uint64_t>(count);
  }
}

Result<std::string> PartialFile::finish() {
  const std::lock_guard hash(hash_mutex_);
  TRY(hash_until_gap());
  CHECK(hashed_ == size_, "{}: hashed {} of {}", path_.string(), hashed_, size_);
  return digest_.hex();
}

Status PartialFile::place(const std::filesystem::path& target) {
  if (::fsync(fd_) != 0) return io_error(path_, "cannot sync");
  if (::close(std::exchange(fd_, -1)) != 0) return io_error(path_, "cannot close");
  if (::rename(path_.c_str(), target.c_str()) != 0) return io_error(target, "cannot rename into place");
  ::unlink(journal_path_.c_str());
  // The rename itself survives a power cut only when the folder is synced; some file systems refuse that, harmlessly.
  const int folder = ::open(target.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
  return {};
}

void PartialFile::discard() {
  ::unlink(journal_path_.c_str());
  ::unlink(path_.c_str());
}

}  // namespace clef::fetch
