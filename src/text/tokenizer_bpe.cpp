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

constexpr std::size_t kScanBytes = 32;  // up to here scanning all pairs for the lowest rank beats the heap
static_assert(kScanBytes >= ShortTokens::kMaxBytes, "encode() finds out by scanning whether a token is a word");

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

Result<BytePairEncoder> BytePairEncoder::create(const TokenizerDefinition& definition, std::size_t chunk_bytes) {
  const TokenBytes tokens(definition.tokens);
  BytePairEncoder encoder;
  encoder.short_tokens_ = ShortTokens(tokens.size());
  LongTokens long_tokens;
  encoder.token_bytes_.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    encoder.token_bytes_.push_back(static_cast<std::uint32_t>(tokens[i].size()));
    encoder.longest_token_bytes_ = std::max(encoder.longest_token_bytes_, tokens[i].size());
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
  encoder.chunk_bytes_ = std::max(chunk_bytes, 8 * encoder.longest_token_bytes_);
  for (std::size_t b = 0; b < encoder.byte_ids_.size(); ++b) {
    const char byte = static_cast<char>(b);
    encoder.byte_ids_[b] = id_of({&byte, 1}, encoder.short_tokens_, long_tokens);
    if (encoder.byte_ids_[b] < 0) {
      return tokenizer_error(fmt::format("no token for the byte 0x{:02x} ('{}')", b, byte_symbols({&byte, 1})));
    }
  }

  encoder.merges_.resize(slots_for(definition.merges.size()));
  encoder.merge_shift_ = shift_for(encoder.merges_.size());
  encoder.byte_pair_ranks_.assign(256 * 256, kNoRank);
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
    if (text.size() == 2) {
      const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(static_cast<unsigned char>(text[at])); };
      encoder.byte_pair_ranks_[byte(0) * 256 + byte(1)] = merge.rank;
    }
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

void BytePairEncoder::encode(std::string_view word, std::size_t enough, Scratch& scratch,
                             std::vector<std::int32_t>& ids) const {
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
  while (word.size() > chunk_bytes_) {
    word.remove_prefix(merge_chunk(word, scratch, ids));
    if (word.empty() || ids.size() >= enough) return;
  }
  merge(word, scratch, ids);
}

// Appends the ids of a prefix of `word` that are also the first ids of the whole word; returns the prefix's bytes.
//
// Call E(w) the ids of w. Merging picks the lowest rank, then the leftmost, so as long as no merge crosses the borders
// of a part of w, the merges inside the part are those it would undergo alone. Two things follow:
// (1) any run of neighbouring tokens of E(w) is E of their bytes;
// (2) tokens of which every two neighbours are E of their bytes are together E of theirs: the first merge to cross a
//     border would have been picked in those two alone as well.
// Let the tokens of a chunk of w include x, then a border. The last border of E(w) inside the chunk, b, lies less than
// the longest token before the chunk's end. If for every such b E(from x to b) starts with x, then by (2) E(up to b) is
// the chunk's tokens up to x and then more, whichever b it is, and by (1) E(w) starts with those tokens.
std::size_t BytePairEncoder::merge_chunk(std::string_view word, Scratch& scratch,
                                         std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  for (std::size_t size = chunk_bytes_; size < word.size(); size *= 2) {
    const std::string_view chunk = word.substr(0, size);
    merge(chunk, scratch, ids);
    std::size_t border = size, count = ids.size();  // after the token ids[count - 1]
    // Nearly always the first token tried is right; a few more tries, each further back, cost little beside the chunk.
    for (std::size_t back = longest_token_bytes_; back <= size / 2; back *= 2) {
      while (count > before && border > size - back) border -= token_bytes_[static_cast<std::size_t>(ids[--count])];
      if (count == before) break;
      const std::int32_t id = ids[count - 1];
      if (is_first_whatever_follows(id, chunk.substr(border - token_bytes_[static_cast<std::size_t>(id)]), scratch)) {
        ids.resize(count);
        return border;
      }
    }
    ids.resize(before);
  }
  merge(word, scratch, ids);
  return word.size();
}

// Whether the encoding of `chunk_end`, cut anywhere less than the longest token before its end, starts with `id`.
bool BytePairEncoder::is_first_whatever_follows(std::int32_t id, std::string_view chunk_end, Scratch& scratch) const {
  for (std::size_t cut = 0; cut < longest_token_bytes_; ++cut) {
    scratch.trial.clear();
    merge(chunk_end.substr(0, chunk_end.size() - cut), scratch, scratch.trial);
    if (scratch.trial.front() != id) return false;
  }
  return true;
}

void BytePairEncoder::merge(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
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
    for (std::size_t i = 0; i < count; ++i) rank = std::min(rank, ranks[i]);  // without its place: so it vectorizes
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
