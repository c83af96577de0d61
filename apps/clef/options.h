// The command line of clef.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace clef::cli {

enum class Format : std::uint8_t { automatic, json, table };

struct Options {
  std::filesystem::path model;
  std::vector<std::string> inputs;  // request files; "-" is standard input, and so is none at all
  Format format = Format::automatic;
  bool strict = false;
  bool truncate = false;
  bool logits = false;
  bool timings = false;
  int num_threads = 0;  // 0: one a CPU
  std::int64_t batch = 1;
  std::int64_t max_length = 16384;
  std::filesystem::path trace;
  bool help = false;
  bool version = false;
};

// The arguments without the program's name. Errc::bad_request says what is wrong with them: exit code 2.
Result<Options> parse_options(const std::vector<std::string>& arguments);

// A whole decimal number from first to last, and nothing else: "8", not "+8", "0x8", "8.0" or "". A typo must not
// become another number.
std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t first, std::int64_t last);

// What --help prints.
std::string_view help_text();

// Every option's name as --help has to list it. For tests.
std::vector<std::string> option_names();

}  // namespace clef::cli
