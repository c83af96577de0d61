// The command line of clef.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "clef/ask_request.h"
#include "record/encode.h"

namespace clef::cli {

enum class Format : std::uint8_t { automatic, json, table };

struct Options {
  std::filesystem::path model;
  std::vector<std::string> inputs;  // request files; "-" is standard input, and so is none at all
  Asking ask;                       // with questions it makes the only request
  bool print_request = false;
  Format format = Format::automatic;
  bool strict = false;
  bool truncate = false;
  bool logits = false;
  bool timings = false;
  std::string device = "auto";
  std::string f32_layers;  // of a GPU; empty: its own choice
  int num_threads = 0;     // 0: one a CPU
  std::int64_t batch = 1;
  std::int64_t max_length = 16384;
  std::int64_t max_tokens_in_flight = 0;  // as in EngineOptions
  bool token_table = true;                // likewise
  std::filesystem::path trace;
  MediaLimits media_limits;
  bool help = false;
  bool version = false;
};

// The arguments without the program's name. Errc::bad_request says what is wrong with them: exit code 2.
Result<Options> parse_options(const std::vector<std::string>& arguments);

// What --help prints.
std::string_view help_text();

// Every option's name as --help has to list it. For tests.
std::vector<std::string> option_names();

}  // namespace clef::cli
