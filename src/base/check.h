// CHECK(condition[, format, ...]): our own mistakes end the process with a message, in release too.
#pragma once

#include <fmt/format.h>

#include <string>

namespace clef {

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& detail);

#define CHECK(condition, ...)                                                            \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      ::clef::check_failed(#condition, __FILE__, __LINE__, fmt::format("" __VA_ARGS__)); \
  } while (false)

}  // namespace clef
