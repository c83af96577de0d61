// A file that arrives in pieces and any order, hashed on the way, and that a killed process can go on with.
//
// The bytes lie in PATH, the file's whole length from the start; PATH.done lists the ranges that were written, a line
// each, and is only ever appended to. What it claims is not trusted: the digest is taken of the bytes themselves, those
// of an earlier run read back from the disk. Several threads may write at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "fetch/digest.h"
#include "fetch/manifest.h"

namespace clef::fetch {

struct ByteRange {
  std::uint64_t first = 0, end = 0;
  std::uint64_t size() const { return end - first; }
  bool operator==(const ByteRange&) const = default;
};

class PartialFile {
 public:
  // Begins or goes on. A journal of another file, size or digest, or one that cannot be read, is begun again.
  static Result<std::unique_ptr<PartialFile>> open(const std::filesystem::path& path, const ManifestFile& file);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  std::vector<ByteRange> missing() const;
  std::uint64_t bytes_done() const;
  // Of the file's length, what has its place on the disk already: also what was written and not noted.
  std::uint64_t bytes_placed() const;
  bool is_resumed() const { return is_resumed_; }

  // Hashes the bytes at once where they continue what is hashed, and leaves them to hash_forward otherwise.
  Status write(std::uint64_t offset, std::span<const std::byte> bytes);
  // Writes down that [first, end) is there, so that a later run need not fetch it.
  Status note(ByteRange range);

  // Reads back and hashes what lies ready behind the hashed part. Returns at once when another thread does it.
  Status hash_forward();

  // Once nothing is missing: the digest, all of it taken.
  Result<std::string> finish();
  // Syncs, renames over `target` and removes the journal. The folders must be there.
  Status place(const std::filesystem::path& target);
  // Removes the file and its journal.
  void discard();

 private:
  PartialFile(std::filesystem::path path, std::uint64_t size, DigestKind kind, int fd, int journal);
  Status hash_until_gap();

  std::filesystem::path path_, journal_path_;
  std::uint64_t size_;
  int fd_, journal_;
  bool is_resumed_ = false;
  mutable std::mutex ranges_mutex_;
  std::map<std::uint64_t, std::uint64_t> done_;  // first to end, apart from each other
  std::mutex hash_mutex_;
  Digest digest_;
  std::uint64_t hashed_ = 0;  // bytes from the start
  std::vector<std::byte> buffer_;
};

}  // namespace clef::fetch
