#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <new>
#include <string>
#include <vector>

namespace clef {
namespace {

using Clock = Scheduler::Clock;
using Passes = std::vector<std::vector<std::int64_t>>;  // lengths of the records of each

// A device whose passes wait until they are let through, and that remembers what it ran.
class Device {
 public:
  std::vector<Result<Decisions>> decide(std::span<const EncodedRecord* const> records) {
    std::unique_lock lock(mutex_);
    auto& pass = passes_.emplace_back();
    for (const EncodedRecord* record : records) pass.push_back(std::ssize(record->input_ids));
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_open_ || passes_.size() <= allowed_; });
    if (throws_) throw std::bad_alloc();
    return {records.size(), result_};
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait_for_passes(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return passes_.size() >= count; });
  }
  Passes passes() {
    const std::lock_guard lock(mutex_);
    return passes_;
  }
  void set_result(Result<Decisions> result) { result_ = std::move(result); }
  void set_throws() { throws_ = true; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false, throws_ = false;
  std::size_t allowed_ = 0;
  Passes passes_;
  Result<Decisions> result_ = Decisions{};
};

struct Asked {
  Scheduler::Ticket ticket;
  std::future<Result<Scheduler::Outcome>> result;
};

class SchedulerTest : public testing::Test {
 protected:
  void start(SchedulerOptions options = {}) {
    options.host_threads = 1;  // so that jobs reach the device in the order of their coming
    scheduler = std::make_unique<Scheduler>(
        [this](std::span<const EncodedRecord* const> records) { return device.decide(records); }, options);
  }
  ~SchedulerTest() override {
    device.open();
    scheduler.reset();
  }

  static Scheduler::Job job(std::int64_t tokens, std::string key, std::promise<Result<Scheduler::Outcome>> promise) {
    auto shared = std::make_shared<std::promise<Result<Scheduler::Outcome>>>(std::move(promise));
    Scheduler::Job job;
    job.key = std::move(key);
    job.bytes = static_cast<std::size_t>(tokens) * 4;
    job.prepare = [tokens]() -> Result<Engine::Prepared> {
      Engine::Prepared prepared;
      prepared.record.input_ids.assign(static_cast<std::size_t>(tokens), 0);
      return prepared;
    };
    job.done = [shared](Result<Scheduler::Outcome> result) { shared->set_value(std::move(result)); };
    return job;
  }
  Asked ask(std::int64_t tokens, const std::string& key = "") {
    std::promise<Result<Scheduler::Outcome>> promise;
    Asked asked;
    asked.result = promise.get_future();
    asked.ticket = scheduler->submit(job(tokens, key, std::move(promise))).value();
    return asked;
  }
  void wait_for_waiting(std::int64_t requests) {
    while (scheduler->load().waiting_requests != requests) std::this_thread::yield();
  }
  // Prepared and waiting for the device, not for the pool: that of one key whose tokens are all known.
  void occupy_device() {
    first = ask(1);
    device.wait_for_passes(1);
  }

  Device device;
  std::unique_ptr<Scheduler> scheduler;
  Asked first;
};

// A job behind all of its key's: by the time it is done, the pool has prepared them.
std::future<void> barrier(Scheduler& scheduler, const std::string& key = "") {
  auto reached = std::make_shared<std::promise<void>>();
  Scheduler::Job job;
  job.key = key;
  job.prepare = []() -> Result<Engine::Prepared> { return Error{Errc::bad_request, ""}; };
  job.done = [reached](Result<Scheduler::Outcome>) { reached->set_value(); };
  EXPECT_TRUE(scheduler.submit(std::move(job)));
  return reached->get_future();
}

TEST_F(SchedulerTest, PacksWhatWaitsUpToItsBounds) {
  start({.max_batch_requests = 3, .max_batch_tokens = 100});
  occupy_device();
  std::vector<Asked> asked;
  for (const std::int64_t tokens : {10, 20, 30, 40, 70, 500, 5, 90}) asked.push_back(ask(tokens));
  barrier(*scheduler).wait();
  device.open();
  for (Asked& one : asked) EXPECT_TRUE(one.result.get());
  EXPECT_EQ(device.passes(), (Passes{{1}, {10, 20, 30}, {40}, {70}, {500}, {5, 90}}));
}

TEST_F(SchedulerTest, TakesKeysInTurns) {
  start({.max_batch_requests = 1});
  occupy_device();
  std::vector<Asked> asked;
  for (const std::int64_t tokens : {101, 102, 103}) asked.push_back(ask(tokens, "greedy"));
  for (const std::int64_t tokens : {11, 12}) asked.push_back(ask(tokens, "modest"));
  barrier(*scheduler, "greedy").wait();
  device.open();
  for (Asked& one : asked) EXPECT_TRUE(one.result.get());
  const Passes passes = device.passes();
  EXPECT_EQ(passes[1], std::vector<std::int64_t>{101});
  EXPECT_EQ(passes[2], std::vector<std::int64_t>{11});
  EXPECT_EQ(passes[3], std::vector<std::int64_t>{12});
}

TEST_F(SchedulerTest, RefusesWhatDoesNotFitInTheQueue) {
  start({.max_queue_tokens = 100});
  occupy_device();
  Asked large = ask(5000);  // nothing else waits
  wait_for_waiting(1);
  std::promise<Result<Scheduler::Outcome>> promise;
  const auto refused = scheduler->submit(job(10, "", std::move(promise)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy);
  device.open();
  EXPECT_TRUE(large.result.get());
}

TEST_F(SchedulerTest, BoundsTheBytesThatWaitAlone) {
  start({.max_queue_bytes = 1000, .max_request_tokens = 10});
  std::promise<void> go;
  std::promise<Result<Scheduler::Outcome>> blocked, large, small;
  auto blocked_result = blocked.get_future(), large_result = large.get_future();
  Scheduler::Job blocker = job(1, "", std::move(blocked));
  std::promise<void> begun;
  blocker.prepare = [&, prepare = blocker.prepare] {
    begun.set_value();
    go.get_future().wait();
    return prepare();
  };
  ASSERT_TRUE(scheduler->submit(std::move(blocker)));
  begun.get_future().wait();
  Scheduler::Job first_large = job(1, "", std::move(large));
  first_large.bytes = 900;  // ten tokens at most, whatever its bytes
  ASSERT_TRUE(scheduler->submit(std::move(first_large)));
  EXPECT_EQ(scheduler->load().waiting_tokens, 1 + 10);
  EXPECT_EQ(scheduler->load().waiting_bytes, 4U + 900U);
  EXPECT_TRUE(scheduler->has_room(96));
  EXPECT_FALSE(scheduler->has_room(97));
  Scheduler::Job second = job(1, "", std::move(small));
  second.bytes = 97;
  EXPECT_EQ(scheduler->submit(std::move(second)).error().code, Errc::busy);
  go.set_value();
  device.open();
  EXPECT_TRUE(blocked_result.get());
  EXPECT_TRUE(large_result.get());
  EXPECT_EQ(scheduler->load().waiting_bytes, 0U);
}

// What was let in stays in, also when it turns out to have more tokens than its bytes promised.
TEST_F(SchedulerTest, KeepsItsWordWhenAGuessWasTooLow) {
  start({.max_queue_tokens = 100});
  occupy_device();
  std::vector<Asked> asked;  // 80 tokens wait, and 80 more that promised to be 10
  for (int i = 0; i < 2; ++i) {
    std::promise<Result<Scheduler::Outcome>> promise;
    Asked& one = asked.emplace_back();
    one.result = promise.get_future();
    Scheduler::Job dense = job(80, "", std::move(promise));
    dense.bytes = 40;
    one.ticket = scheduler->submit(std::move(dense)).value();
    if (i == 0) wait_for_waiting(1);
  }
  device.open();
  for (Asked& one : asked) EXPECT_TRUE(one.result.get());
}

TEST_F(SchedulerTest, DropsWhatIsCancelledWhileItWaits) {
  start();
  occupy_device();
  Asked cancelled = ask(10), kept = ask(20);
  wait_for_waiting(2);
  barrier(*scheduler).wait();
  cancelled.ticket.cancel();
  EXPECT_EQ(scheduler->load().waiting_requests, 1);
  EXPECT_EQ(scheduler->load().waiting_tokens, 20);
  device.open();
  EXPECT_TRUE(kept.result.get());
  EXPECT_EQ(device.passes(), (Passes{{1}, {20}}));
  EXPECT_THROW(cancelled.result.get(), std::future_error);  // nothing was said, and all of the job is gone
  cancelled.ticket.cancel();
}

TEST_F(SchedulerTest, SaysNothingOfWhatIsCancelledWhileItRuns) {
  start();
  occupy_device();
  first.ticket.cancel();
  Asked next = ask(10);
  device.open();
  EXPECT_TRUE(next.result.get());
  first.ticket = {};
  EXPECT_THROW(first.result.get(), std::future_error);
}

TEST_F(SchedulerTest, AnswersWhatCameTooLate) {
  start();
  occupy_device();
  std::promise<Result<Scheduler::Outcome>> promise;
  auto result = promise.get_future();
  Scheduler::Job late = job(10, "", std::move(promise));
  late.deadline = Clock::now();
  ASSERT_TRUE(scheduler->submit(std::move(late)));
  EXPECT_EQ(result.get().error().code, Errc::timeout);
}

TEST_F(SchedulerTest, TellsWhyARequestCannotBePrepared) {
  start();
  std::promise<Result<Scheduler::Outcome>> bad, full;
  auto bad_result = bad.get_future(), full_result = full.get_future();
  Scheduler::Job refused = job(1, "", std::move(bad)), exhausted = job(1, "", std::move(full));
  refused.prepare = []() -> Result<Engine::Prepared> { return Error{Errc::bad_request, "no"}; };
  exhausted.prepare = []() -> Result<Engine::Prepared> { throw std::bad_alloc(); };
  ASSERT_TRUE(scheduler->submit(std::move(refused)));
  ASSERT_TRUE(scheduler->submit(std::move(exhausted)));
  EXPECT_EQ(bad_result.get().error().message, "no");
  EXPECT_EQ(full_result.get().error().code, Errc::out_of_memory);
  EXPECT_EQ(scheduler->load().waiting_requests, 0);
  EXPECT_TRUE(device.passes().empty());
}

TEST_F(SchedulerTest, CountsPassesThatTheDeviceFails) {
  std::vector<bool> failed;
  start({.observe = [&](const PassReport& report) { failed.push_back(report.has_failed); }});
  device.open();
  device.set_result(Error{Errc::device, "lost"});
  EXPECT_EQ(ask(1).result.get().error().code, Errc::device);
  EXPECT_EQ(ask(1).result.get().error().code, Errc::device);
  EXPECT_EQ(scheduler->load().failed_passes_in_a_row, 2);
  device.set_result(Error{Errc::non_finite, "a record's own fault"});
  EXPECT_FALSE(ask(1).result.get());
  EXPECT_EQ(scheduler->load().failed_passes_in_a_row, 0);
  device.set_throws();
  EXPECT_EQ(ask(1).result.get().error().code, Errc::out_of_memory);
  EXPECT_EQ(failed, (std::vector<bool>{true, true, false, true}));
}

TEST_F(SchedulerTest, DecodesPicturesOfFewRequestsAtOnce) {
  start({.max_media_requests = 2});
  occupy_device();
  std::atomic<int> decoded = 0;
  std::vector<Asked> asked(5);
  for (int i = 0; i < 5; ++i) {
    std::promise<Result<Scheduler::Outcome>> promise;
    asked[static_cast<std::size_t>(i)].result = promise.get_future();
    Scheduler::Job media = job(10 + i, "", std::move(promise));
    media.has_media = [] { return true; };
    media.prepare = [&decoded, prepare = media.prepare] {
      ++decoded;
      return prepare();
    };
    asked[static_cast<std::size_t>(i)].ticket = scheduler->submit(std::move(media)).value();
  }
  Asked text = ask(5);  // does not wait for pictures
  barrier(*scheduler).wait();
  EXPECT_EQ(decoded, 2);
  asked[3].ticket.cancel();  // waits for its turn to decode
  asked[0].ticket.cancel();  // has decoded, and gives its turn to the next
  barrier(*scheduler).wait();
  EXPECT_EQ(decoded, 3);
  EXPECT_EQ(scheduler->load().waiting_requests, 4);
  device.open();
  EXPECT_TRUE(text.result.get());
  for (const std::size_t i : {1U, 2U, 4U}) EXPECT_TRUE(asked[i].result.get());
  EXPECT_EQ(decoded, 4);
}

// What asking about pictures took is given back by a job that has to wait for its turn, and by no other.
TEST_F(SchedulerTest, SetsAsideWhatHasToWaitForPictures) {
  start({.max_media_requests = 1});
  occupy_device();
  std::atomic<int> set_aside = 0;
  std::vector<Asked> asked(3);
  for (Asked& one : asked) {
    std::promise<Result<Scheduler::Outcome>> promise;
    one.result = promise.get_future();
    Scheduler::Job media = job(10, "", std::move(promise));
    media.has_media = [] { return true; };
    media.set_aside = [&set_aside] { ++set_aside; };
    one.ticket = scheduler->submit(std::move(media)).value();
  }
  barrier(*scheduler).wait();
  EXPECT_EQ(set_aside, 2);
  device.open();
  for (Asked& one : asked) EXPECT_TRUE(one.result.get());
}

TEST_F(SchedulerTest, OutlivesAnAnswerThatFindsNoMemory) {
  start();
  device.open();
  std::promise<Result<Scheduler::Outcome>> promise;
  Scheduler::Job exhausted = job(1, "", std::move(promise));
  exhausted.done = [](Result<Scheduler::Outcome>) { throw std::bad_alloc(); };
  ASSERT_TRUE(scheduler->submit(std::move(exhausted)));
  EXPECT_TRUE(ask(1).result.get());
}

TEST_F(SchedulerTest, EndsWithWorkWaiting) {
  start();
  occupy_device();
  Asked waiting = ask(10);
  wait_for_waiting(1);
  device.open();
  scheduler.reset();
  waiting.ticket = {};
}

}  // namespace
}  // namespace clef
