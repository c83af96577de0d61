#include "base/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace clef {

namespace {

Error io_error(const std::filesystem::path& path, const char* what) {
  return Error{Errc::io, fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno))};
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::filesystem::path& path) {
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}.tmp", ::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return io_error(temporary, "cannot create");
  return OutputFile(fd, path, std::move(temporary));
}

OutputFile::OutputFile(int fd, std::filesystem::path path, std::filesystem::path temporary)
    : fd_(fd), path_(std::move(path)), temporary_(std::move(temporary)) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      bytes_written_(other.bytes_written_),
      path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)) {}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  TRY(write_at(bytes_written_, bytes));
  bytes_written_ += bytes.size();
  return {};
}

Status OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  CHECK(fd_ >= 0, "{} is closed", path_.string());
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return io_error(temporary_, "cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

Status OutputFile::write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

Status OutputFile::commit() {
  CHECK(fd_ >= 0, "{} is closed", path_.string());
  if (::fsync(fd_) != 0) return io_error(temporary_, "cannot sync");
  if (::close(std::exchange(fd_, -1)) != 0) {
    const Error error = io_error(temporary_, "cannot close");
    ::unlink(temporary_.c_str());
    return error;
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const Error error = io_error(path_, "cannot rename into place");
    ::unlink(temporary_.c_str());
    return error;
  }
  // The rename itself survives a power cut only when the folder is synced; some file systems refuse that, harmlessly.
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
  return {};
}

Status write_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file = TRY(OutputFile::create(path));
  TRY(file.write(text));
  return file.commit();
}

Status require_space(const std::filesystem::path& folder, std::uint64_t bytes) {
  std::error_code failure;
  const std::filesystem::space_info space = std::filesystem::space(folder, failure);
  if (failure) return Error{Errc::io, fmt::format("{}: cannot stat: {}", folder.string(), failure.message())};
  if (space.available >= bytes) return {};
  return Error{Errc::io, fmt::format("{}: {:.1f} GB needed, {:.1f} GB free", folder.string(),
                                     static_cast<double>(bytes) / 1e9, static_cast<double>(space.available) / 1e9)};
}

}  // namespace clef
