// Where the expected values stand, and how to read them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/json.h"

namespace clef::test {

// tests/golden/NAME
std::filesystem::path golden_path(const std::string& name);

// A file of the build folder's test data: models made by formula at build time, for example "clef-tiny".
std::filesystem::path test_data_path(const std::string& name);

std::string read_file(const std::filesystem::path& path);

// The lines of a JSON-lines file, parsed with the product's own parser.
std::vector<Json> golden_lines(const std::string& name);

}  // namespace clef::test
