#include "text/json_keys.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace clef {
namespace {

constexpr std::size_t kIndexFrom = 17;  // members; up to here comparing all pairs is quicker than an index

struct HashKey {
  std::uint64_t k0, k1;
};

// Drawn once a process: who sends the keys must not be able to choose ones that collide.
const HashKey& process_hash_key() {
  static const HashKey key = [] {
    std::random_device random;
    const auto word = [&] { return (std::uint64_t{random()} << 32) | random(); };
    return HashKey{word(), word()};
  }();
  return key;
}

// SipHash-1-3. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.
std::uint64_t keyed_hash(std::string_view text, const HashKey& key) {
  std::uint64_t v0 = key.k0 ^ 0x736f6d6570736575U, v1 = key.k1 ^ 0x646f72616e646f6dU;
  std::uint64_t v2 = key.k0 ^ 0x6c7967656e657261U, v3 = key.k1 ^ 0x7465646279746573U;
  const auto mix = [&] {
    v0 += v1, v1 = std::rotl(v1, 13) ^ v0, v0 = std::rotl(v0, 32);
    v2 += v3, v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3, v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1, v1 = std::rotl(v1, 17) ^ v2, v2 = std::rotl(v2, 32);
  };
  const auto absorb = [&](std::uint64_t word) { v3 ^= word, mix(), v0 ^= word; };
  std::size_t at = 0;
  for (; text.size() - at >= 8; at += 8) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    absorb(word);
  }
  std::uint64_t tail = std::uint64_t{text.size()} << 56;
  for (unsigned shift = 0; at < text.size(); ++at, shift += 8) {
    tail |= std::uint64_t{static_cast<unsigned char>(text[at])} << shift;
  }
  absorb(tail);
  v2 ^= 0xff;
  mix(), mix(), mix();
  return v0 ^ v1 ^ v2 ^ v3;
}

// Keeps members [0, kept) unique while walking: `first_of` answers where a key stands already, or adds it.
template <typename FirstOf>
void keep_first_places(Json::Object& members, FirstOf first_of) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::size_t first = first_of(members[i].first, kept);
    if (first < kept) {
      members[first].second = std::move(members[i].second);
    } else {
      if (kept != i) members[kept] = std::move(members[i]);
      ++kept;
    }
  }
  members.erase(members.begin() + static_cast<std::ptrdiff_t>(kept), members.end());
}

}  // namespace

void resolve_repeated_keys(Json::Object& members) {
  if (members.size() < kIndexFrom) {
    keep_first_places(members, [&](std::string_view key, std::size_t kept) {
      std::size_t i = 0;
      while (i < kept && members[i].first != key) ++i;
      return i;
    });
    return;
  }
  // Open addressing, at most half full. A slot holds a member's place and some bits of its hash, which spare most looks
  // at the member itself.
  struct Slot {
    std::uint32_t hash_bits;
    std::uint32_t place_plus_1 = 0;
  };
  std::vector<Slot> slots(std::bit_ceil(members.size() * 2));
  const HashKey& hash_key = process_hash_key();
  keep_first_places(members, [&](std::string_view key, std::size_t kept) {
    const std::uint64_t hash = keyed_hash(key, hash_key);
    const auto hash_bits = static_cast<std::uint32_t>(hash >> 32);
    for (std::size_t at = hash & (slots.size() - 1);; at = (at + 1) & (slots.size() - 1)) {
      Slot& slot = slots[at];
      if (slot.place_plus_1 == 0) {
        slot = {.hash_bits = hash_bits, .place_plus_1 = static_cast<std::uint32_t>(kept + 1)};
        return kept;
      }
      if (slot.hash_bits == hash_bits && members[slot.place_plus_1 - 1].first == key)
        return slot.place_plus_1 - std::size_t{1};
    }
  });
}

}  // namespace clef
