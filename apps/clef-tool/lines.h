// Input by lines or as a whole, and answers on stdout.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace clef {

// Calls `each` with every line of a file, or of stdin when `path` is "-", without its end; empty lines are skipped.
Status for_each_line(const std::filesystem::path& path, const std::function<Status(std::string_view line)>& each);

// The whole of a file, or of stdin when `path` is "-".
Result<std::string> read_all(const std::filesystem::path& path);

// Writes to stdout; a lost byte is an error.
Status write_stdout(std::string_view text);

}  // namespace clef
