#include "clef/input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "text/utf8.h"

namespace clef::cli {
namespace {

constexpr std::size_t kReadBytes = 1 << 16;  // a pipe's capacity on Linux

Result<std::string> read_to_end(int descriptor, std::size_t max_bytes) {
  std::string bytes;
  while (true) {
    const std::size_t held = bytes.size();
    if (held > max_bytes) return Error{Errc::too_large, fmt::format("more than the {} bytes allowed", max_bytes)};
    bytes.resize(held + std::max(kReadBytes, held / 2));
    const std::size_t count = TRY(read_some(descriptor, bytes.data() + held, bytes.size() - held));
    bytes.resize(held + count);
    if (count == 0) return bytes;
  }
}

}  // namespace

Result<Input> Input::open(const std::string& name) {
  if (name == "-") return Input(STDIN_FILENO, false);
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return Error{Errc::io, std::strerror(errno)};
  return Input(descriptor, true);
}

Input::Input(Input&& other) noexcept
    : descriptor_(other.descriptor_), is_owned_(std::exchange(other.is_owned_, false)) {}

Input::~Input() {
  if (is_owned_) ::close(descriptor_);
}

Result<std::size_t> read_some(int descriptor, char* data, std::size_t size) {
  ssize_t count;
  do {
    count = ::read(descriptor, data, size);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return Error{Errc::io, std::strerror(errno)};
  return static_cast<std::size_t>(count);
}

Result<std::string> read_whole(const std::string& name, std::size_t max_bytes) {
  const auto input = Input::open(name);
  auto bytes = input ? read_to_end(input->descriptor(), max_bytes) : Result<std::string>(input.error());
  if (bytes) return bytes;
  return Error{bytes.error().code, fmt::format("{}: {}", name == "-" ? "stdin" : name, bytes.error().message)};
}

Status check_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence_length(text, at);
    if (length == 0) return Error{Errc::bad_request, fmt::format("expected UTF-8, got another byte at place {}", at)};
    at += length;
  }
  return {};
}

}  // namespace clef::cli
