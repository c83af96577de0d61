// The commands of clef-tool, one file each: flags and wiring.
#pragma once

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace clef {

inline constexpr int kExitFailure = 1, kExitUsage = 2;

// Each adds its command to `app`; running it sets `status`, the exit code.
void add_synth(CLI::App& app, int& status);
void add_convert(CLI::App& app, int& status);

// Prints `clef-tool: MESSAGE` to stderr and returns kExitFailure.
int fail(const Error& error);

}  // namespace clef
