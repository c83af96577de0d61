#include "support/golden.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace clef::test {

std::filesystem::path golden_path(const std::string& name) { return std::filesystem::path(CLEF_GOLDEN_DIR) / name; }

std::filesystem::path test_data_path(const std::string& name) {
  return std::filesystem::path(CLEF_TEST_DATA_DIR) / name;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Json> golden_lines(const std::string& name) {
  std::istringstream lines(read_file(golden_path(name)));
  std::vector<Json> values;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    auto value = parse_json(line);
    if (!value) throw std::runtime_error(name + ": " + value.error().message);
    values.push_back(std::move(value).value());
  }
  return values;
}

}  // namespace clef::test
