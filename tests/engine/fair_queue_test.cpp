#include "engine/fair_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace clef {
namespace {

std::vector<std::string> all_of(FairQueue<std::string>& queue) {
  std::vector<std::string> items;
  while (!queue.empty()) items.push_back(queue.pop());
  return items;
}

TEST(FairQueue, KeepsTheOrderOfOneKey) {
  FairQueue<std::string> queue;
  for (const char* item : {"a", "b", "c"}) queue.push("k", 100, item);
  EXPECT_EQ(all_of(queue), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(FairQueue, TakesKeysInTurns) {
  FairQueue<std::string> queue;
  for (const char* item : {"a1", "a2", "a3"}) queue.push("a", 10, item);
  for (const char* item : {"b1", "b2"}) queue.push("b", 10, item);
  EXPECT_EQ(all_of(queue), (std::vector<std::string>{"a1", "b1", "a2", "b2", "a3"}));
}

TEST(FairQueue, CountsCostNotItems) {
  FairQueue<std::string> queue;
  queue.push("large", 100, "L1");
  queue.push("large", 100, "L2");
  for (const char* item : {"s1", "s2", "s3", "s4"}) queue.push("small", 50, item);
  EXPECT_EQ(all_of(queue), (std::vector<std::string>{"L1", "s1", "s2", "L2", "s3", "s4"}));
}

TEST(FairQueue, GivesNothingForTimeSpentAway) {
  FairQueue<std::string> queue;
  for (int i = 0; i < 4; ++i) queue.push("a", 10, "a");
  for (int i = 0; i < 3; ++i) queue.pop();
  // b comes late, and waits as long as it would have in an even queue, not before all of a's.
  queue.push("a", 10, "a");
  queue.push("b", 10, "b1");
  queue.push("b", 10, "b2");
  EXPECT_EQ(all_of(queue), (std::vector<std::string>{"b1", "a", "b2", "a"}));
}

TEST(FairQueue, ForgetsWhatIsTakenOut) {
  FairQueue<std::string> queue;
  queue.push("k", 1, "a");
  const auto place = queue.push("k", 1, "b");
  queue.push("k", 1, "c");
  queue.erase(place);
  queue.erase(place);  // once more changes nothing
  EXPECT_EQ(all_of(queue), (std::vector<std::string>{"a", "c"}));
}

// Keys may be as many as clients with addresses of their own.
TEST(FairQueue, RemembersFewKeysThatWaitForNothing) {
  FairQueue<int> queue;
  queue.push("waits for ever", 1'000'000'000, 0);
  queue.push("waits for ever", 1, 0);
  for (int i = 0; i < 100'000; ++i) {
    queue.push("key " + std::to_string(i), 1, i);
    queue.pop();
    ASSERT_LT(queue.num_keys(), 5000U);
  }
}

}  // namespace
}  // namespace clef
