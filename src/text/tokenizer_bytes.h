// The byte symbols of byte-level vocabularies: each byte has a printable code point, so that token texts are readable.
//
// Bytes 33-126, 161-172 and 174-255 stand for themselves; the other 68 are U+0100, U+0101, ... in order. Source: GPT-2.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace clef {

// The symbols of `bytes`, as UTF-8.
std::string byte_symbols(std::string_view bytes);

// Appends the bytes whose symbols `symbols` holds. False, with a part appended, when it holds anything else.
bool append_symbol_bytes(std::string& out, std::string_view symbols);

}  // namespace clef
