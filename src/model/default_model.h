// The demo model that comes with cleffa: what the programs answer with when no -m is given.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace clef {

inline constexpr std::string_view kDefaultModelFile = "cleffa-demo.gguf";

// What a program says when it takes the demo model, so that nobody mistakes its answers for Clef's.
inline constexpr std::string_view kDefaultModelNotice =
    "no -m given: answering with the demo model, a tiny network trained to show the form of answers; it is no Clef "
    "model";

// The demo model of an installation (PREFIX/share/cleffa/models, seen from PREFIX/bin) or of a source tree (models/ in
// one of the folders above the program's). Errc::io names the places that were looked at.
Result<std::filesystem::path> find_default_model(const std::filesystem::path& program);

// Of the program that runs.
Result<std::filesystem::path> find_default_model();

}  // namespace clef
