// A file that appears under its name only when it is whole: written beside it, synced, then renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/result.h"

namespace clef {

class OutputFile {
 public:
  // Opens PATH.PID.tmp for writing. Errc::io when the folder is missing or not writable.
  static Result<OutputFile> create(const std::filesystem::path& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // removes the temporary file unless it was committed

  // Appends to what `write` wrote before.
  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  std::uint64_t bytes_written() const { return bytes_written_; }

  // At a place of the file, from any thread; does not move where `write` appends.
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;

  // Syncs the data, renames the file over `path` and syncs the folder. Nothing may be written afterwards.
  Status commit();

 private:
  OutputFile(int fd, std::filesystem::path path, std::filesystem::path temporary);

  int fd_ = -1;
  std::uint64_t bytes_written_ = 0;
  std::filesystem::path path_, temporary_;
};

// The whole of a small file at once.
Status write_file(const std::filesystem::path& path, std::string_view text);

// Errc::io when the file system that holds `folder` has no room for `bytes` more.
Status require_space(const std::filesystem::path& folder, std::uint64_t bytes);

}  // namespace clef
