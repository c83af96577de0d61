#include "text/tokenizer_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <string>
#include <unordered_map>

#include "text/tokenizer_bytes.h"
#include "text/tokenizer_error.h"

namespace clef {
namespace {

std::uint64_t hash_pair(std::int32_t left, std::int32_t right) {
  const std::uint64_t key =
      (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
  return mix(key ^ kMix2, kMix1);
}

// The two bits of a pair in its word of the filter; low bits, since the high ones choose the word.
std::uint64_t filter_bits(std::uint64_t hash) {
  return (std::uint64_t{1} << (hash & 63)) | (std::uint64_t{1} << ((hash >> 6) & 63));
}

// The bytes of every token, one after the other. A token that is not made of byte symbols, as an added token may be,
// has none here: it cannot come out of merges.
class TokenBytes {
 public:
  explicit TokenBytes(std::span<const std::string> tokens) {
    ends_.reserve(tokens.size());
    for (const std::string& token : tokens) {
      const std::size_t begin = bytes_.size();
      if (!append_symbol_bytes(bytes_, token)) bytes_.resize(begin);
      ends_.push_back(bytes_.size());
    }
  }
  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t id) const {
    const std::size_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::string_view(bytes_).substr(begin, ends_[id] - begin);
  }

 private:
  std::string bytes_;
  std::vector<std::size_t> ends_;
};

// The tokens too long for ShortTokens; keys point into TokenBytes.
using LongTokens = std::unordered_map<std::string_view, std::int32_t>;

std::int32_t id_of(std::string_view bytes, const ShortTokens& short_tokens, const LongTokens& long_tokens) {
  if (bytes.empty()) return -1;
  if (bytes.size() <= ShortTokens::kMaxBytes) {
    const ShortTokens::Entry* entry = short_tokens.find(bytes);
    return entry == nullptr ? -1 : entry->id;
  }
  const auto found = long_tokens.find(bytes);
  return found == long_tokens.end() ? -1 : found->second;
}

}  // namespace

Result<BytePairEncoder> BytePairEncoder::create(const TokenizerDefinition& definition) {
  const TokenBytes tokens(definition.tokens);
  BytePairEncoder encoder;
  encoder.short_tokens_ = ShortTokens(tokens.size());
  LongTokens long_tokens;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].empty()) continue;
    const auto id = static_cast<std::int32_t>(i);
    const bool is_short = tokens[i].size() <= ShortTokens::kMaxBytes;
    const std::int32_t known =
        is_short ? encoder.short_tokens_.add(tokens[i], id) : long_tokens.emplace(tokens[i], id).first->second;
    if (known != id) {
      return tokenizer_error(
          fmt::format("tokens[{}] and tokens[{}] are both {}", known, i, quoted(definition.tokens[i])));
    }
  }
  for (std::size_t b = 0; b < encoder.byte_ids_.size(); ++b) {
    const char byte = static_cast<char>(b);
    encoder.byte_ids_[b] = id_of({&byte, 1}, encoder.short_tokens_, long_tokens);
    if (encoder.byte_ids_[b] < 0) {
      return tokenizer_error(fmt::format("no token for the byte 0x{:02x} ('{}')", b, byte_symbols({&byte, 1})));
    }
  }

  encoder.merges_.resize(slots_for(definition.merges.size()));
  encoder.merge_shift_ = shift_for(encoder.merges_.size());
  encoder.may_merge_.resize(slots_for(definition.merges.size() / 16));  // 8 to 16 bits a merge
  encoder.may_merge_shift_ = shift_for(encoder.may_merge_.size());
  encoder.merged_.reserve(definition.merges.size());
  std::string text;
  for (std::size_t i = 0; i < definition.merges.size(); ++i) {
    const auto& [left, right] = definition.merges[i];
    text.clear();
    const bool is_left_valid = append_symbol_bytes(text, left);
    const std::size_t left_bytes = text.size();
    const bool is_right_valid = append_symbol_bytes(text, right);
    const auto part = [&](bool is_valid, std::string_view bytes) {
      return is_valid ? id_of(bytes, encoder.short_tokens_, long_tokens) : -1;
    };
    const Merge merge = {.left = part(is_left_valid, std::string_view(text).substr(0, left_bytes)),
                         .right = part(is_right_valid, std::string_view(text).substr(left_bytes)),
                         .rank = static_cast<Rank>(i),
                         .merged = part(is_left_valid && is_right_valid, text)};
    if (merge.left < 0 || merge.right < 0 || merge.merged < 0) {
      const std::string& missing = merge.left < 0 ? left : merge.right < 0 ? right : left + right;
      return tokenizer_error(fmt::format("merges[{}]: no token {}", i, quoted(missing)));
    }
    encoder.merged_.push_back(merge.merged);
    encoder.add_merge(merge);
  }
  encoder.byte_pair_ranks_.resize(256 * 256);
  for (std::size_t i = 0; i < encoder.byte_pair_ranks_.size(); ++i) {
    encoder.byte_pair_ranks_[i] = encoder.rank_of(encoder.byte_ids_[i / 256], encoder.byte_ids_[i % 256]);
  }
  return encoder;
}

void BytePairEncoder::add_merge(const Merge& merge) {
  const std::uint64_t hash = hash_pair(merge.left, merge.right);
  std::size_t slot = hash >> merge_shift_;
  while (merges_[slot].left >= 0 && (merges_[slot].left != merge.left || merges_[slot].right != merge.right)) {
    slot = (slot + 1) & (merges_.size() - 1);
  }
  merges_[slot] = merge;  // of a repeated pair the last rank counts, as in the reference
  may_merge_[hash >> may_merge_shift_] |= filter_bits(hash);
}

BytePairEncoder::Rank BytePairEncoder::rank_of(std::int32_t left, std::int32_t right) const {
  const std::uint64_t hash = hash_pair(left, right);
  if ((may_merge_[hash >> may_merge_shift_] & filter_bits(hash)) != filter_bits(hash)) return kNoRank;
  for (std::size_t slot = hash >> merge_shift_;; slot = (slot + 1) & (merges_.size() - 1)) {
    const Merge& merge = merges_[slot];
    if (merge.left == left && merge.right == right) return merge.rank;
    if (merge.left < 0) return kNoRank;
  }
}

namespace {

constexpr std::size_t kScanBytes = 128;  // up to here scanning all pairs for the lowest rank beats the heap

}  // namespace

void BytePairEncoder::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  if (word.size() <= ShortTokens::kMaxBytes) {
    if (const ShortTokens::Entry* entry = short_tokens_.find(word)) {
      const auto is_word = entry->is_word.load(std::memory_order_relaxed);
      if (is_word == ShortTokens::Word::yes) {
        ids.push_back(entry->id);
        return;
      }
      if (is_word == ShortTokens::Word::unknown) {
        const std::size_t before = ids.size();
        merge_by_scanning(word, ids);
        entry->is_word.store(ids.size() - before == 1 ? ShortTokens::Word::yes : ShortTokens::Word::no,
                             std::memory_order_relaxed);
        return;
      }
    }
  }
  if (word.size() <= kScanBytes) {
    merge_by_scanning(word, ids);
  } else {
    merge_by_heap(word, scratch, ids);
  }
}

void BytePairEncoder::merge_by_scanning(std::string_view word, std::vector<std::int32_t>& ids) const {
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(word[i])); };
  std::array<std::int32_t, kScanBytes> symbols;
  std::array<Rank, kScanBytes> ranks;  // of each symbol with the next; kNoRank for the last
  std::size_t count = word.size();
  for (std::size_t i = 0; i + 1 < count; ++i) {
    symbols[i] = byte_ids_[byte(i)];
    ranks[i] = byte_pair_ranks_[byte(i) * 256 + byte(i + 1)];
  }
  symbols[count - 1] = byte_ids_[byte(count - 1)];
  ranks[count - 1] = kNoRank;
  while (true) {
    Rank rank = kNoRank;
    for (std::size_t i = 0; i < count; ++i)
      rank = std::min(rank, ranks[i]);  // apart from the search, so as to vectorize
    if (rank == kNoRank) break;
    const auto lowest = static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
    symbols[lowest] = merged_[static_cast<std::size_t>(rank)];
    --count;
    std::copy(symbols.begin() + lowest + 2, symbols.begin() + count + 1, symbols.begin() + lowest + 1);
    std::copy(ranks.begin() + lowest + 1, ranks.begin() + count + 1, ranks.begin() + lowest);
    if (lowest + 1 < count) ranks[lowest] = rank_of(symbols[lowest], symbols[lowest + 1]);
    if (lowest > 0) ranks[lowest - 1] = rank_of(symbols[lowest - 1], symbols[lowest]);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.begin() + static_cast<std::ptrdiff_t>(count));
}

void BytePairEncoder::merge_by_heap(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  CHECK(word.size() < kNone, "a word of {} bytes", word.size());
  const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(word[i])); };
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto entry = [](Rank rank, std::uint32_t position) {
    return (static_cast<std::uint64_t>(rank) << 32) | position;
  };
  const auto count = static_cast<std::uint32_t>(word.size());
  symbols.resize(count);
  heap.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool is_last = i + 1 == count;
    const Rank rank = is_last ? kNoRank : byte_pair_ranks_[byte(i) * 256 + byte(i + 1)];
    symbols[i] = {byte_ids_[byte(i)], i == 0 ? kNone : i - 1, is_last ? kNone : i + 1, rank};
    if (rank != kNoRank) heap.push_back(entry(rank, i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  const auto set_rank = [&](std::uint32_t at) {
    const std::uint32_t next = symbols[at].next;
    const Rank rank = next == kNone ? kNoRank : rank_of(symbols[at].id, symbols[next].id);
    symbols[at].rank = rank;
    if (rank == kNoRank) return;
    heap.push_back(entry(rank, at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    const std::uint64_t lowest = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto rank = static_cast<Rank>(lowest >> 32);
    const auto at = static_cast<std::uint32_t>(lowest);
    if (symbols[at].rank != rank) continue;  // the pair has changed or is gone since it was pushed
    const std::uint32_t gone = symbols[at].next;
    symbols[at].id = merged_[static_cast<std::size_t>(rank)];
    symbols[at].next = symbols[gone].next;
    symbols[gone].rank = kNoRank;
    if (symbols[at].next != kNone) symbols[symbols[at].next].previous = at;
    set_rank(at);
    if (symbols[at].previous != kNone) set_rank(symbols[at].previous);
  }
  for (std::uint32_t at = 0; at != kNone; at = symbols[at].next) ids.push_back(symbols[at].id);
}

}  // namespace clef
