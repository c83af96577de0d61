#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace clef {

namespace {

Error io_error(const std::filesystem::path& path, const char* what) {
  return Error{Errc::io, fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno))};
}

struct FileDescriptor {
  int fd;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a FIFO must not make us wait for a writer.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return io_error(path, "cannot open");
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return io_error(path, "cannot stat");
  if (!S_ISREG(info.st_mode)) return Error{Errc::io, fmt::format("{}: not a regular file", path.string())};
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return MappedFile(nullptr, 0, path);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) return io_error(path, "cannot map");
  return MappedFile(data, size, path);
}

MappedFile::MappedFile(void* data, std::size_t size, std::filesystem::path path)
    : data_(data), size_(size), path_(std::move(path)) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace clef
