#include "clef-tool/lines.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>

namespace clef {

namespace {

Error read_error(const std::filesystem::path& path) {
  return Error{Errc::io, fmt::format("cannot read {}: {}", path.string(), std::strerror(errno))};
}

// The file, or stdin; `file` owns what was opened.
Result<std::istream*> open_input(const std::filesystem::path& path, std::ifstream& file) {
  if (path == "-") return &static_cast<std::istream&>(std::cin);
  errno = 0;
  file.open(path, std::ios::binary);
  if (!file) return read_error(path);
  return &static_cast<std::istream&>(file);
}

}  // namespace

Status for_each_line(const std::filesystem::path& path, const std::function<Status(std::string_view line)>& each) {
  std::ifstream file;
  std::istream& in = *TRY(open_input(path, file));
  errno = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) TRY(each(line));
  }
  if (in.bad()) return read_error(path);
  return {};
}

Result<std::string> read_all(const std::filesystem::path& path) {
  std::ifstream file;
  std::istream& in = *TRY(open_input(path, file));
  errno = 0;
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) return read_error(path);
  return text;
}

Status write_stdout(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return {};
  return Error{Errc::io, fmt::format("cannot write stdout: {}", std::strerror(errno))};
}

}  // namespace clef
