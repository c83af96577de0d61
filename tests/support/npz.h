// Arrays of bytes from NumPy's .npz files, enough for the golden frames.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace clef::test {

struct ByteArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> values;
};

// The array `name` of an .npz file: uint8, C order. Throws where the file is another.
ByteArray read_npz(const std::filesystem::path& path, const std::string& name);

}  // namespace clef::test
