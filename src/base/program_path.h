// Where the running program's file is.
#pragma once

#include <filesystem>

#include "base/result.h"

namespace clef {

Result<std::filesystem::path> program_path();  // Errc::io

}  // namespace clef
