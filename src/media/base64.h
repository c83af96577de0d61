// Base64 as RFC 4648 section 4 has it: the standard alphabet, padding required, nothing else between the characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace clef {

// Bytes that `length` characters stand for at most; exact but for padding.
constexpr std::size_t max_decoded_base64(std::size_t length) { return length / 4 * 3; }

// Errc::bad_request for anything else than base64; too_large when it stands for more than `max_bytes`, before a byte is
// decoded. Unused bits of the last character are not looked at, as in Python's base64 module.
Result<std::vector<std::uint8_t>> decode_base64(std::string_view text, std::size_t max_bytes);

// Appends the characters for `bytes` to `out`.
void append_base64(std::string& out, std::span<const std::uint8_t> bytes);

}  // namespace clef
