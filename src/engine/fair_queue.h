// A queue that shares out a server between keys: start-time fair queueing (Goyal, Vin, Cheng 1996).
//
// An item starts, in virtual time, when its key's item before it ends, but never before now; it ends `cost` later. The
// item that starts first is next. Of one key alone that is the order of arrival; a key that asks for much waits behind
// its own work, not the others behind it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"

namespace clef {

template <typename Item>
class FairQueue {
 public:
  struct Place {  // of an item that waits
    std::int64_t start = 0;
    std::uint64_t arrival = 0;
    auto operator<=>(const Place&) const = default;
  };

  // cost is in any unit that is the same for all, at least 1.
  Place push(const std::string& key, std::int64_t cost, Item item) {
    CHECK(cost >= 1, "an item of cost {}", cost);
    if (ends_.size() > items_.size() + kMaxIdleKeys) forget_the_past();
    std::int64_t& end = ends_[key];
    const Place place{std::max(now_, end), next_arrival_++};
    end = place.start + cost;
    items_.emplace(place, std::move(item));
    return place;
  }

  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size(); }
  std::size_t num_keys() const { return ends_.size(); }  // remembered
  const Item& front() const { return items_.begin()->second; }

  Item pop() {
    CHECK(!items_.empty());
    auto first = items_.extract(items_.begin());
    now_ = std::max(now_, first.key().start);
    forget_if_empty();
    return std::move(first.mapped());
  }

  // Takes an item out of turn; its key's later items keep their places.
  void erase(const Place& place) {
    items_.erase(place);
    forget_if_empty();
  }

 private:
  static constexpr std::size_t kMaxIdleKeys = 4096;  // remembered without an item that waits

  // Keys whose last item ends before now are as good as new. When that is not enough all are, which costs no more than
  // fairness between those whose turn it just was.
  void forget_the_past() {
    std::erase_if(ends_, [this](const auto& key) { return key.second <= now_; });
    if (ends_.size() > items_.size() + kMaxIdleKeys) ends_.clear();
  }

  // With nothing waiting all keys are even again, and none is remembered.
  void forget_if_empty() {
    if (items_.empty()) ends_.clear();
  }

  std::map<Place, Item> items_;
  std::map<std::string, std::int64_t> ends_;  // by key
  std::int64_t now_ = 0;
  std::uint64_t next_arrival_ = 0;
};

}  // namespace clef
