// A file named on the command line, or standard input.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace clef::cli {

// Opened for reading. Errors are Errc::io, and their message is the system's alone.
class Input {
 public:
  static Result<Input> open(const std::string& name);  // "-" is standard input
  Input(Input&& other) noexcept;
  Input& operator=(Input&&) = delete;
  ~Input();
  int descriptor() const { return descriptor_; }

 private:
  Input(int descriptor, bool is_owned) : descriptor_(descriptor), is_owned_(is_owned) {}
  int descriptor_;
  bool is_owned_;
};

// Bytes read into [data, data + size): 0 at the end. A signal does not end the wait.
Result<std::size_t> read_some(int descriptor, char* data, std::size_t size);

// All of an input, as long as it has at most max_bytes; the message of an error begins with the name.
Result<std::string> read_whole(const std::string& name, std::size_t max_bytes);

// Errc::bad_request with the place of the first byte that breaks UTF-8.
Status check_utf8(std::string_view text);

}  // namespace clef::cli
