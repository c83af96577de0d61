// Hashing for the tokenizer's tables, whose keys come from a model file and are fixed once it is loaded.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace clef {

// Both factors are odd with evenly spread bits; nothing more is asked of them.
inline constexpr std::uint64_t kMix1 = 0x9e3779b97f4a7c15, kMix2 = 0xd6e8feb86659fd93;

// All bits of the product fold into the result, so that keys which differ anywhere spread over the upper bits.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Open addressing over a power of two of slots, at most half of them taken: slots for `count` entries, and how far to
// shift a hash to get its first slot.
inline std::size_t slots_for(std::size_t count) { return std::bit_ceil(std::max<std::size_t>(2 * count, 2)); }
inline int shift_for(std::size_t slots) { return 64 - std::countr_zero(slots); }

}  // namespace clef
