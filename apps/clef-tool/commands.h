// The commands of clef-tool, one file each: flags and wiring.
#pragma once

#include <CLI/CLI.hpp>

#include <string_view>

#include "base/result.h"

namespace clef {

inline constexpr int kExitFailure = 1, kExitUsage = 2;

// Each adds its command to `app`; running it sets `status`, the exit code.
void add_fetch(CLI::App& app, int& status);
void add_convert(CLI::App& app, int& status);
void add_verify(CLI::App& app, int& status);
void add_inspect(CLI::App& app, int& status);
void add_tokenize(CLI::App& app, int& status);
void add_encode(CLI::App& app, int& status);
void add_synth(CLI::App& app, int& status);

// Prints `clef-tool: MESSAGE` to stderr and returns kExitFailure.
int fail(const Error& error);

// Prints to stdout and returns the exit code.
int print(std::string_view text);

}  // namespace clef
