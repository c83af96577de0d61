// Digests of whole files as the hub names them: SHA-256 for large files (LFS), git's SHA-1 of a blob for the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace clef::fetch {

enum class DigestKind : std::uint8_t { sha256, git_sha1 };

// Hexadecimal digits tell the kind: 64 are a SHA-256, 40 a git blob's SHA-1. Lower case; nothing for any other text.
std::optional<DigestKind> digest_kind(std::string_view hex);
std::string_view name_of(DigestKind kind);  // "sha256", "git-sha1"

// Takes a file's bytes in order. Git's digest begins with the size, so it has to be known first.
class Digest {
 public:
  Digest(DigestKind kind, std::uint64_t size);
  ~Digest();
  Digest(Digest&& other) noexcept;
  Digest& operator=(Digest&& other) noexcept;

  void update(std::span<const std::byte> bytes);
  std::string hex();  // once, after the last byte

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The digest of a regular file of `size` bytes; a symbolic link is not followed. Calls `advance` with the bytes of each
// step; where that is false the answer is Errc::unavailable.
Result<std::string> digest_file(const std::filesystem::path& path, DigestKind kind, std::uint64_t size,
                                const std::function<bool(std::uint64_t)>& advance);

}  // namespace clef::fetch
