// An answer for people: a bar for every option.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "clef/terminal.h"
#include "engine/engine.h"

namespace clef::cli {

inline constexpr std::size_t kMaxTableOptions = 12;  // options shown of one question: the most probable ones

// number counts the answers of this run from 1.
std::string table(const Engine::Answer& answer, std::int64_t number, const Terminal& terminal);
std::string table_error(std::string_view message, std::int64_t number, const Terminal& terminal);

// A bar of `fraction` (0 to 1) of `columns` columns: eighths of a block in Unicode, '#' in ASCII. Something above zero
// shows at least the smallest piece.
std::string bar(double fraction, std::int64_t columns, bool is_utf8);

}  // namespace clef::cli
