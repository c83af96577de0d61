#include "fetch/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace clef::fetch {

namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;  // stays in a core's second-level cache while it is hashed

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

struct FileDescriptor {
  int fd;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

Error io_error(const std::filesystem::path& path, const char* what) {
  return Error{Errc::io, fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno))};
}

}  // namespace

struct Digest::State {
  std::unique_ptr<EVP_MD_CTX, FreeContext> context{EVP_MD_CTX_new()};
};

std::optional<DigestKind> digest_kind(std::string_view hex) {
  const bool is_hex =
      std::all_of(hex.begin(), hex.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (is_hex && hex.size() == 64) return DigestKind::sha256;
  if (is_hex && hex.size() == 40) return DigestKind::git_sha1;
  return std::nullopt;
}

std::string_view name_of(DigestKind kind) { return kind == DigestKind::sha256 ? "sha256" : "git-sha1"; }

Digest::Digest(DigestKind kind, std::uint64_t size) : state_(std::make_unique<State>()) {
  if (state_->context == nullptr) throw std::bad_alloc();
  const EVP_MD* method = kind == DigestKind::sha256 ? EVP_sha256() : EVP_sha1();
  CHECK(EVP_DigestInit_ex(state_->context.get(), method, nullptr) == 1);
  if (kind == DigestKind::git_sha1) {
    const std::string head = fmt::format("blob {}", size);
    update(std::as_bytes(std::span(head.c_str(), head.size() + 1)));  // git counts the NUL in
  }
}

Digest::~Digest() = default;
Digest::Digest(Digest&& other) noexcept = default;
Digest& Digest::operator=(Digest&& other) noexcept = default;

void Digest::update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned size = 0;
  CHECK(EVP_DigestFinal_ex(state_->context.get(), raw.data(), &size) == 1);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", raw[i]);
  return text;
}

Result<std::string> digest_file(const std::filesystem::path& path, DigestKind kind, std::uint64_t size,
                                const std::function<bool(std::uint64_t)>& advance) {
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (file.fd < 0) return io_error(path, "cannot open");
  Digest digest(kind, size);
  std::vector<std::byte> buffer(kReadBytes);
  for (;;) {
    const ssize_t count = ::read(file.fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(path, "cannot read");
    if (count == 0) return digest.hex();
    const auto bytes = static_cast<std::size_t>(count);
    digest.update(std::span(buffer).first(bytes));
    if (advance && !advance(bytes)) return Error{Errc::unavailable, "stopped"};
  }
}

}  // namespace clef::fetch
