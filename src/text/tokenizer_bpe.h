// Byte pair encoding of one word: start from its bytes, merge the adjacent pair of lowest rank, leftmost first, until
// no adjacent pair has a rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"
#include "text/tokenizer_short.h"

namespace clef {

class BytePairEncoder {
 public:
  // Errc::bad_model when a byte or a part of a merge has no token, or two tokens have the same text. Words longer than
  // `chunk_bytes` are encoded by chunks of that size, with the same result; tests make it small.
  static Result<BytePairEncoder> create(const TokenizerDefinition& definition, std::size_t chunk_bytes = 64 * 1024);

  // What encoding needs beside the tables; one for each thread.
  struct Scratch;

  // Appends the ids of `word`, which is not empty. Once `ids` holds `enough` of them the rest of a long word may be
  // left out; what is there is right then, too.
  void encode(std::string_view word, std::size_t enough, Scratch& scratch, std::vector<std::int32_t>& ids) const;

 private:
  using Rank = std::int32_t;  // signed: SSE2 compares no others
  static constexpr Rank kNoRank = std::numeric_limits<Rank>::max();

  // Open addressing, see tokenizer_hash.h.
  struct Merge {
    std::int32_t left = -1, right = -1;
    Rank rank = kNoRank;
    std::int32_t merged = -1;
  };

  Rank rank_of(std::int32_t left, std::int32_t right) const;
  void add_merge(const Merge& merge);
  void merge_by_scanning(std::string_view word, std::vector<std::int32_t>& ids) const;
  void merge_by_heap(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void merge(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  std::size_t merge_chunk(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  bool is_first_whatever_follows(std::int32_t id, std::string_view chunk_end, Scratch& scratch) const;

  std::array<std::int32_t, 256> byte_ids_{};
  std::vector<Rank> byte_pair_ranks_;  // [256 * 256] by first byte, second byte
  std::vector<std::int32_t> merged_;   // the id a merge makes, by rank
  std::vector<Merge> merges_;
  int merge_shift_ = 0;
  // Most pairs that turn up have no rank. Two bits a merge in one word of a table that fits the second-level cache tell
  // nearly all of those without a look into `merges_`, which does not fit.
  std::vector<std::uint64_t> may_merge_;
  int may_merge_shift_ = 0;
  ShortTokens short_tokens_;
  std::vector<std::uint32_t> token_bytes_;  // by id
  std::size_t longest_token_bytes_ = 0;
  std::size_t chunk_bytes_ = 0;
};

struct BytePairEncoder::Scratch {
  // A word's symbols as a doubly linked list in arrays, and the ranked pairs still to be merged as a heap.
  struct Symbol {
    std::int32_t id;
    std::uint32_t previous, next;
    Rank rank;  // of the pair this symbol makes with the next
  };
  std::vector<Symbol> symbols;
  std::vector<std::uint64_t> heap;  // rank << 32 | position, so that of equal ranks the leftmost comes first
  std::vector<std::int32_t> trial;
};

}  // namespace clef
