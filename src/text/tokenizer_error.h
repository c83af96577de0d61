// Messages about tokenizer files.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "text/utf8.h"

namespace clef {

inline Error tokenizer_error(std::string message) { return Error{Errc::bad_model, "tokenizer: " + std::move(message)}; }

// 'TEXT', shortened: enough to recognise it by, whatever the file holds.
inline std::string quoted(std::string_view text) {
  constexpr std::size_t kShownBytes = 80;
  return fmt::format("'{}'{}", utf8_prefix(text, kShownBytes), text.size() > kShownBytes ? "..." : "");
}

}  // namespace clef
