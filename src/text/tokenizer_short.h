// The tokens of up to 15 bytes, looked up by their bytes: nearly all words of ordinary text are such tokens.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "text/tokenizer_hash.h"

namespace clef {

class ShortTokens {
 public:
  static constexpr std::size_t kMaxBytes = 15;

  // Taking a word for the token of the same bytes is only right where the merges lead from one to the other. That is
  // found out when a word first turns up; threads may find it out at the same time, and then find the same.
  enum class Word : std::uint8_t { unknown, yes, no };

  struct Entry {
    std::uint64_t low = 0, high = 0;  // the bytes padded with zeros; the last byte is their count
    std::int32_t id = -1;
    mutable std::atomic<Word> is_word = Word::unknown;
  };

  explicit ShortTokens(std::size_t capacity = 0) : entries_(slots_for(capacity)), shift_(shift_for(entries_.size())) {}

  // The entry of `bytes`, 1 to kMaxBytes of them; null when there is none.
  const Entry* find(std::string_view bytes) const {
    const Entry& entry = entries_[slot_of(pad(bytes))];
    return entry.id >= 0 ? &entry : nullptr;
  }
  // Adds an entry for `id` unless there is one for these bytes; returns the id that stands there. At most `capacity`
  // entries.
  std::int32_t add(std::string_view bytes, std::int32_t id) {
    const Padded padded = pad(bytes);
    Entry& entry = entries_[slot_of(padded)];
    if (entry.id < 0) {
      entry.low = padded.low;
      entry.high = padded.high;
      entry.id = id;
    }
    return entry.id;
  }

 private:
  struct Padded {
    std::uint64_t low, high;
  };

  // Reads no byte outside `bytes`: loads overlap instead, and agree where they do.
  static Padded pad(std::string_view bytes) {
    static_assert(std::endian::native == std::endian::little, "bytes are shifted by their order in memory");
    const char* p = bytes.data();
    const std::size_t n = bytes.size();
    const auto load64 = [](const char* from) { return load<std::uint64_t>(from); };
    const auto load32 = [](const char* from) { return std::uint64_t{load<std::uint32_t>(from)}; };
    const auto byte = [&](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(p[i])} << (8 * i); };
    const std::uint64_t count = static_cast<std::uint64_t>(n) << 56;
    if (n > 8) return {load64(p), (load64(p + n - 8) >> (8 * (16 - n))) | count};
    if (n == 8) return {load64(p), count};
    if (n >= 4) return {load32(p) | (load32(p + n - 4) << (8 * (n - 4))), count};
    return {byte(0) | byte(n / 2) | byte(n - 1), count};
  }

  template <typename T>
  static T load(const char* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  // Where the entry stands or would stand.
  std::size_t slot_of(const Padded& padded) const {
    std::size_t slot = mix(padded.low ^ kMix1, padded.high ^ kMix2) >> shift_;
    while (entries_[slot].id >= 0 && (entries_[slot].low != padded.low || entries_[slot].high != padded.high)) {
      slot = (slot + 1) & (entries_.size() - 1);
    }
    return slot;
  }

  std::vector<Entry> entries_;
  int shift_;
};

}  // namespace clef
