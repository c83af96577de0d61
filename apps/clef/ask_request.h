// A request made of the command line: questions, a state, and media from files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json.h"

namespace clef::cli {

inline constexpr std::size_t kMaxStateBytes = std::size_t{64} << 20;   // as of a line of requests
inline constexpr std::size_t kMaxMediaBytes = std::size_t{256} << 20;  // of all image files together

struct Asking {
  std::vector<std::string> questions;  // see ask.h
  std::optional<std::string> state;    // at most one of the two; neither is an empty text
  std::optional<std::string> state_file;
  bool state_is_json = false;
  std::vector<std::string> images;
  std::optional<std::string> frames;  // a folder with a video's frames
  std::optional<Json> fps;            // of the video: a number
};

// The request's body. Errc::bad_request is a mistake on the command line; another code says that a file is not there,
// not readable or not what it should be.
Result<Json> make_request(const Asking& asking, std::size_t max_media_bytes = kMaxMediaBytes);

// The files of a folder but hidden ones, in the order in which people count: frame2 before frame10.
Result<std::vector<std::filesystem::path>> frame_files(const std::filesystem::path& folder);

// Whether `a` comes before `b` when runs of digits count as numbers.
bool natural_less(std::string_view a, std::string_view b);

// Frames a second as a JSON number; nothing for text that is not a number above 0 and up to 1000.
std::optional<Json> frame_rate(std::string_view text);

}  // namespace clef::cli
