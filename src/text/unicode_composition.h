// Canonical decomposition and composition of single code points, as Unicode 9 has them. For unicode*.cpp.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace clef {

// Whether Unicode 10 or later gave the code point its combining class or composition, so that ours ignores both.
bool is_unknown_to_nfc(char32_t code_point);

class Composition {
 public:
  // Built at first use, then constant.
  static const Composition& instance();

  // The primary composite of the two, 0 when there is none.
  char32_t compose(char32_t first, char32_t second) const;
  // Whether some primary composite ends in `code_point`.
  bool is_second(char32_t code_point) const { return seconds_.contains(code_point); }

  const std::unordered_set<char32_t>& seconds() const { return seconds_; }
  // Code points that NFC always replaces by others.
  const std::vector<char32_t>& replaced() const { return replaced_; }

  static bool is_decomposable(char32_t code_point);
  // Appends the full canonical decomposition, which is the code point itself when it has none.
  static void append_decomposition(std::vector<char32_t>& out, char32_t code_point);

 private:
  Composition();

  std::unordered_map<std::uint64_t, char32_t> composites_;  // by first << 32 | second
  std::unordered_set<char32_t> seconds_;
  std::vector<char32_t> replaced_;
};

}  // namespace clef
