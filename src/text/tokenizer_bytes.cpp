#include "text/tokenizer_bytes.h"

#include <array>
#include <cstdint>

#include "text/unicode.h"

namespace clef {
namespace {

struct ByteAlphabet {
  std::array<char32_t, 256> symbol;
  std::array<std::int16_t, 0x180> byte;  // by symbol, -1 for none

  ByteAlphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (std::size_t b = 0; b < symbol.size(); ++b) {
      const bool is_itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      symbol[b] = is_itself ? static_cast<char32_t>(b) : next++;
      byte[symbol[b]] = static_cast<std::int16_t>(b);
    }
  }

  static const ByteAlphabet& instance() {
    static const ByteAlphabet alphabet;
    return alphabet;
  }
};

}  // namespace

std::string byte_symbols(std::string_view bytes) {
  const ByteAlphabet& alphabet = ByteAlphabet::instance();
  std::string symbols;
  for (const char byte : bytes) append_utf8(symbols, alphabet.symbol[static_cast<unsigned char>(byte)]);
  return symbols;
}

bool append_symbol_bytes(std::string& out, std::string_view symbols) {
  const ByteAlphabet& alphabet = ByteAlphabet::instance();
  for (std::size_t at = 0; at < symbols.size();) {
    const DecodedCodePoint c = decode_utf8(symbols, at);
    if (c.value >= alphabet.byte.size() || alphabet.byte[c.value] < 0) return false;
    out.push_back(static_cast<char>(alphabet.byte[c.value]));
    at += c.bytes;
  }
  return true;
}

}  // namespace clef
