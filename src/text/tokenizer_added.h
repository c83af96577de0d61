// Added tokens (control strings such as <|im_end|>) found in raw text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer.h"

namespace clef {

class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(std::span<const AddedToken> tokens);

  struct Match {
    std::size_t begin, end;
    std::int32_t id;  // -1: no match, begin and end mean nothing
  };
  // The leftmost match that starts in [begin, limit), the longest of those that start there. It may end past `limit`.
  Match find(std::string_view text, std::size_t begin, std::size_t limit) const;

 private:
  Match match_at(std::string_view text, std::size_t begin) const;

  // A trie: the child of a node by byte is children_[node << 8 | byte]; node 0 is the root.
  std::unordered_map<std::uint64_t, std::uint32_t> children_;
  std::vector<std::int32_t> ids_;  // the token that ends at a node, -1 for none
  std::array<bool, 256> starts_{};
  int only_start_ = -1;  // the byte that all tokens start with, -1 when they differ: lets memchr do the search
};

}  // namespace clef
