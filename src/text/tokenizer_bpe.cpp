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

constexpr std::uint64_t kMix1 = 0x9e3779b97f4a7c15,
                        kMix2 = 0xd6e8feb86659fd93;  // odd, bits spread; nothing more to them

std::uint64_t hash_pair(std::int32_t left, std::int32_t right) {
  return ((static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right)) *
         kMix1;
}

std::uint64_t hash_word(std::uint64_t low, std::uint64_t high) {
  return ((low * kMix1) ^ (high + (low >> 32))) * kMix2;
}

// Slots for `count` entries, at least twice as many.
std::size_t slots_for(std::size_t count) { return std::bit_ceil(std::max<std::size_t>(2 * count, 2)); }
int shift_for(std::size_t slots) { return 64 - std::countr_zero(slots); }

template <typename T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

struct PaddedWord {
  std::uint64_t low, high;
};

// Up to 15 bytes, read without touching what follows them. Overlapping loads agree where they overlap.
PaddedWord pad_word(std::string_view word) {
  const char* p = word.data();
  const std::size_t n = word.size();
  const std::uint64_t count = static_cast<std::uint64_t>(n) << 56;
  if (n > 8) return {load<std::uint64_t>(p), (load<std::uint64_t>(p + n - 8) >> (8 * (16 - n))) | count};
  if (n == 8) return {load<std::uint64_t>(p), count};
  if (n >= 4) {
    return {load<std::uint32_t>(p) | (std::uint64_t{load<std::uint32_t>(p + n - 4)} << (8 * (n - 4))), count};
  }
  const auto byte = [&](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(p[i])} << (8 * i); };
  return {byte(0) | byte(n / 2) | byte(n - 1), count};
}

static_assert(std::endian::native == std::endian::little, "pad_word shifts bytes by their order in memory");

}  // namespace

Result<BytePairEncoder> BytePairEncoder::create(const TokenizerDefinition& definition) {
  BytePairEncoder encoder;

  // Every token's bytes, one after the other, and their ids. Tokens that are not made of byte symbols, as added tokens
  // may be, cannot come out of merges.
  std::string arena;
  std::vector<std::size_t> ends;
  ends.reserve(definition.tokens.size());
  for (const std::string& token : definition.tokens) {
    const std::size_t begin = arena.size();
    if (!append_symbol_bytes(arena, token)) arena.resize(begin);
    ends.push_back(arena.size());
  }
  const auto bytes_of = [&](std::size_t id) {
    const std::size_t begin = id == 0 ? 0 : ends[id - 1];
    return std::string_view(arena).substr(begin, ends[id] - begin);
  };
  std::unordered_map<std::string_view, std::int32_t> ids;
  ids.reserve(definition.tokens.size());
  for (std::size_t id = 0; id < definition.tokens.size(); ++id) {
    const std::string_view bytes = bytes_of(id);
    if (bytes.empty()) continue;
    const auto [known, is_new] = ids.emplace(bytes, static_cast<std::int32_t>(id));
    if (!is_new) {
      return tokenizer_error(
          fmt::format("tokens[{}] and tokens[{}] are both {}", known->second, id, quoted(definition.tokens[id])));
    }
  }
  const auto id_of = [&](std::string_view bytes) {
    const auto found = ids.find(bytes);
    return found == ids.end() ? -1 : found->second;
  };

  for (std::size_t b = 0; b < encoder.byte_ids_.size(); ++b) {
    const char byte = static_cast<char>(b);
    encoder.byte_ids_[b] = id_of({&byte, 1});
    if (encoder.byte_ids_[b] < 0) {
      return tokenizer_error(fmt::format("no token for the byte 0x{:02x} ('{}')", b, byte_symbols({&byte, 1})));
    }
  }

  encoder.merges_.resize(slots_for(definition.merges.size()));
  encoder.merge_shift_ = shift_for(encoder.merges_.size());
  encoder.merged_.reserve(definition.merges.size());
  std::string bytes;
  for (std::size_t i = 0; i < definition.merges.size(); ++i) {
    const auto& [left, right] = definition.merges[i];
    const auto part_id = [&](std::string_view part) {
      bytes.clear();
      return append_symbol_bytes(bytes, part) ? id_of(bytes) : -1;
    };
    const std::int32_t left_id = part_id(left), right_id = part_id(right);
    if (left_id < 0) return tokenizer_error(fmt::format("merges[{}]: no token {}", i, quoted(left)));
    if (right_id < 0) return tokenizer_error(fmt::format("merges[{}]: no token {}", i, quoted(right)));
    bytes.assign(bytes_of(static_cast<std::size_t>(left_id))).append(bytes_of(static_cast<std::size_t>(right_id)));
    const std::int32_t merged = id_of(bytes);
    if (merged < 0) return tokenizer_error(fmt::format("merges[{}]: no token {}", i, quoted(left + right)));
    encoder.merged_.push_back(merged);
    encoder.add_merge({.left = left_id, .right = right_id, .rank = static_cast<Rank>(i), .merged = merged});
  }
  encoder.byte_pair_ranks_.resize(256 * 256);
  for (std::size_t i = 0; i < encoder.byte_pair_ranks_.size(); ++i) {
    encoder.byte_pair_ranks_[i] = encoder.rank_of(encoder.byte_ids_[i / 256], encoder.byte_ids_[i % 256]);
  }

  // Looking a word up in the vocabulary is only right for tokens that the merges lead to, so those are found out here.
  encoder.whole_words_.resize(slots_for(definition.tokens.size()));
  encoder.whole_word_shift_ = shift_for(encoder.whole_words_.size());
  std::vector<std::int32_t> merged;
  for (std::size_t id = 0; id < definition.tokens.size(); ++id) {
    const std::string_view word = bytes_of(id);
    if (word.empty() || word.size() > kWholeWordBytes) continue;
    merged.clear();
    encoder.merge_by_scanning(word, merged);
    if (merged.size() == 1) encoder.add_whole_word(word, merged.front());
  }
  return encoder;
}

void BytePairEncoder::add_merge(const Merge& merge) {
  const std::size_t mask = merges_.size() - 1;
  std::size_t slot = hash_pair(merge.left, merge.right) >> merge_shift_;
  while (merges_[slot].left >= 0 && (merges_[slot].left != merge.left || merges_[slot].right != merge.right)) {
    slot = (slot + 1) & mask;
  }
  merges_[slot] = merge;  // of a repeated pair the last rank counts, as in the reference
}

BytePairEncoder::Rank BytePairEncoder::rank_of(std::int32_t left, std::int32_t right) const {
  const std::size_t mask = merges_.size() - 1;
  for (std::size_t slot = hash_pair(left, right) >> merge_shift_;; slot = (slot + 1) & mask) {
    const Merge& merge = merges_[slot];
    if (merge.left == left && merge.right == right) return merge.rank;
    if (merge.left < 0) return kNoRank;
  }
}

void BytePairEncoder::add_whole_word(std::string_view word, std::int32_t id) {
  const auto [low, high] = pad_word(word);
  const std::size_t mask = whole_words_.size() - 1;
  std::size_t slot = hash_word(low, high) >> whole_word_shift_;
  while (whole_words_[slot].id >= 0) slot = (slot + 1) & mask;
  whole_words_[slot] = {low, high, id};
}

std::int32_t BytePairEncoder::whole_word(std::string_view word) const {
  const auto [low, high] = pad_word(word);
  const std::size_t mask = whole_words_.size() - 1;
  for (std::size_t slot = hash_word(low, high) >> whole_word_shift_;; slot = (slot + 1) & mask) {
    const WholeWord& entry = whole_words_[slot];
    if (entry.low == low && entry.high == high) return entry.id;
    if (entry.id < 0) return -1;
  }
}

namespace {

constexpr std::size_t kScanBytes = 128;  // up to here scanning all pairs for the lowest rank beats the heap

}  // namespace

void BytePairEncoder::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  if (word.size() <= kWholeWordBytes) {
    if (const std::int32_t id = whole_word(word); id >= 0) {
      ids.push_back(id);
      return;
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
    std::size_t lowest = 0;
    for (std::size_t i = 1; i < count; ++i) {
      if (ranks[i] < ranks[lowest]) lowest = i;
    }
    if (ranks[lowest] == kNoRank) break;
    symbols[lowest] = merged_[ranks[lowest]];
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
  const auto entry = [](Rank rank, std::uint32_t position) { return (std::uint64_t{rank} << 32) | position; };
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
    symbols[at].id = merged_[rank];
    symbols[at].next = symbols[gone].next;
    symbols[gone].rank = kNoRank;
    if (symbols[at].next != kNone) symbols[symbols[at].next].previous = at;
    set_rank(at);
    if (symbols[at].previous != kNone) set_rank(symbols[at].previous);
  }
  for (std::uint32_t at = 0; at != kNone; at = symbols[at].next) ids.push_back(symbols[at].id);
}

}  // namespace clef
