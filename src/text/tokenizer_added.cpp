#include "text/tokenizer_added.h"

#include <algorithm>
#include <cstring>

namespace clef {

AddedTokenMatcher::AddedTokenMatcher(std::span<const AddedToken> tokens) : ids_{-1} {
  for (const AddedToken& token : tokens) {
    std::uint32_t node = 0;
    for (const char c : token.content) {
      const std::uint64_t key = (std::uint64_t{node} << 8) | static_cast<unsigned char>(c);
      const auto [child, is_new] = children_.emplace(key, static_cast<std::uint32_t>(ids_.size()));
      if (is_new) ids_.push_back(-1);
      node = child->second;
    }
    ids_[node] = token.id;
    starts_[static_cast<unsigned char>(token.content.front())] = true;
  }
  if (std::count(starts_.begin(), starts_.end(), true) == 1) {
    only_start_ = static_cast<int>(std::find(starts_.begin(), starts_.end(), true) - starts_.begin());
  }
}

AddedTokenMatcher::Match AddedTokenMatcher::find(std::string_view text, std::size_t begin, std::size_t limit) const {
  if (children_.empty()) return {0, 0, -1};
  for (std::size_t at = begin; at < limit; ++at) {
    if (only_start_ >= 0) {
      const void* found = std::memchr(text.data() + at, only_start_, limit - at);
      if (found == nullptr) break;
      at = static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
    } else if (!starts_[static_cast<unsigned char>(text[at])]) {
      continue;
    }
    if (const Match match = match_at(text, at); match.id >= 0) return match;
  }
  return {0, 0, -1};
}

AddedTokenMatcher::Match AddedTokenMatcher::match_at(std::string_view text, std::size_t begin) const {
  Match longest{begin, begin, -1};
  std::uint32_t node = 0;
  for (std::size_t at = begin; at < text.size();) {
    const auto child = children_.find((std::uint64_t{node} << 8) | static_cast<unsigned char>(text[at]));
    if (child == children_.end()) break;
    node = child->second;
    ++at;
    if (ids_[node] >= 0) longest = {begin, at, ids_[node]};
  }
  return longest;
}

}  // namespace clef
