// Questions to the file system that cannot throw.
#pragma once

#include <filesystem>
#include <system_error>

namespace clef {

inline bool path_exists(const std::filesystem::path& path) {
  std::error_code failure;
  return std::filesystem::exists(path, failure);
}

inline bool is_folder(const std::filesystem::path& path) {
  std::error_code failure;
  return std::filesystem::is_directory(path, failure);
}

}  // namespace clef
