// The split pattern: where the words of a text end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/tokenizer.h"
#include "text/unicode.h"

namespace clef {

// The two patterns, which model files carry as an Oniguruma regular expression.
std::string_view regex_of(SplitPattern pattern);

// A scanner by hand for both patterns. Every text is cut into words without gaps: the last alternative of the pattern
// takes what no other does. A word depends on the text after its start only, never on what stands before.
class Splitter {
 public:
  explicit Splitter(SplitPattern pattern);

  // End of the word that starts at `begin` < text.size(). Linear: a text's words are found in time linear in the text.
  std::size_t word_end(std::string_view text, std::size_t begin) const;

 private:
  const UnicodeTable& table_;
  std::uint16_t word_;       // categories that make up words
  std::uint16_t not_other_;  // categories that end a run of punctuation, symbols, controls
};

// The last place in (begin, end] where `text` may be cut so that both parts, each normalised and split on its own,
// yield the words of the whole, whatever stands around them; `begin` when there is none. `end` is taken for such a
// place when it is the end of the text.
std::size_t last_safe_cut(std::string_view text, std::size_t begin, std::size_t end);

}  // namespace clef
