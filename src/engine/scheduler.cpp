#include "engine/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/thread_pool.h"
#include "engine/fair_queue.h"

namespace clef {
namespace {

using Clock = Scheduler::Clock;

constexpr std::int64_t kBytesAToken = 4;  // a guess for text that no one has tokenized yet

double seconds_between(Clock::time_point first, Clock::time_point last) {
  return std::chrono::duration<double>(last - first).count();
}

bool is_devices(Errc code) {
  return code == Errc::device || code == Errc::device_lost || code == Errc::out_of_memory || code == Errc::internal ||
         code == Errc::io;
}

}  // namespace

// All of it is guarded by the scheduler's mutex, but for `job` and `outcome`, which belong to the thread that works on
// the entry while it is in none of the queues.
struct Scheduler::Ticket::Entry {
  enum class Stage : std::uint8_t { waits_for_host, on_host, waits_for_media, waits_for_device, on_device, over };
  Stage stage = Stage::waits_for_host;
  bool is_cancelled = false;
  std::optional<bool> has_media;  // none: nobody has asked yet
  bool holds_media = false;       // one of max_media_requests
  std::int64_t tokens = 0;        // a guess until prepared; at least 1
  std::size_t bytes = 0;          // of the body; 0 once prepared
  FairQueue<std::shared_ptr<Entry>>::Place place;
  Clock::time_point submitted;
  Job job;
  Outcome outcome;
};

struct Scheduler::State {
  using Entry = Ticket::Entry;
  using Entries = std::vector<std::shared_ptr<Entry>>;
  using Stage = Entry::Stage;

  Run run;
  SchedulerOptions options;

  mutable std::mutex mutex;
  std::condition_variable host_work, device_work;
  bool stopping = false;
  FairQueue<std::shared_ptr<Entry>> host_queue, device_queue;
  std::deque<std::shared_ptr<Entry>> media_waiting;  // for others' pictures to be done with
  std::int64_t media_at_work = 0;
  std::deque<std::function<void()>> finishing;  // answers to write: they go before new work
  std::int64_t waiting_requests = 0, waiting_tokens = 0;
  std::size_t waiting_bytes = 0;
  std::int64_t running_requests = 0, running_tokens = 0;
  Clock::time_point running_since;
  std::int64_t failed_passes_in_a_row = 0;
  std::optional<Error> loss;

  std::thread device_thread;
  std::vector<std::thread> host_threads;

  static Result<Engine::Prepared> prepare(const Job& job) {
    try {
      return job.prepare();
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    }
  }

  static bool asks_for_media(const Job& job) {
    try {
      return job.has_media && job.has_media();
    } catch (const std::bad_alloc&) {
      return false;  // preparing will say so
    }
  }

  std::vector<Result<Decisions>> decide(std::span<const EncodedRecord* const> records) {
    try {
      return run(records);
    } catch (const std::bad_alloc&) {
      return {records.size(), Result<Decisions>(out_of_memory())};
    }
  }

  static Error out_of_memory() { return {Errc::out_of_memory, "the host is out of memory"}; }

  void start_waiting(const Entry& entry) {
    ++waiting_requests;
    waiting_tokens += entry.tokens;
    waiting_bytes += entry.bytes;
  }
  void stop_waiting(const Entry& entry) {
    --waiting_requests;
    waiting_tokens -= entry.tokens;
    waiting_bytes -= entry.bytes;
  }

  // With its pictures gone, the next may be decoded.
  void end(Entry& entry) {
    entry.stage = Stage::over;
    if (!std::exchange(entry.holds_media, false)) return;
    --media_at_work;
    if (media_waiting.empty()) return;
    const std::shared_ptr<Entry> next = std::move(media_waiting.front());
    media_waiting.pop_front();
    next->stage = Stage::waits_for_host;
    next->place = host_queue.push(next->job.key, next->tokens, next);
    host_work.notify_one();
  }

  void finish(std::shared_ptr<Entry> entry, Result<Outcome> result) {
    end(*entry);
    finishing.emplace_back([entry = std::move(entry), result = std::move(result)]() mutable {
      entry->job.done(std::move(result));
      entry->job = {};  // a ticket may hold the entry for long
    });
    host_work.notify_one();
  }

  // Lock held on entry and on return; not while preparing.
  void prepare_next(std::unique_lock<std::mutex>& lock) {
    const std::shared_ptr<Entry> entry = host_queue.pop();
    entry->stage = Stage::on_host;
    if (Clock::now() >= entry->job.deadline) {
      stop_waiting(*entry);
      return finish(entry, too_late());
    }
    if (!entry->has_media) {
      lock.unlock();
      const bool has_media = asks_for_media(entry->job);
      lock.lock();
      entry->has_media = has_media;
    }
    if (*entry->has_media && !take_media_turn(lock, entry)) return;
    lock.unlock();
    Result<Engine::Prepared> prepared = prepare(entry->job);
    entry->job.prepare = nullptr;  // with it goes the body of the request
    lock.lock();
    stop_waiting(*entry);
    if (entry->is_cancelled) return end(*entry);
    if (!prepared) return finish(entry, std::move(prepared).error());
    // Now its tokens are known. They may be more than there was room for: the work is done, and the body gone.
    entry->outcome.prepared = std::move(prepared).value();
    entry->tokens = std::max<std::int64_t>(1, std::ssize(entry->outcome.prepared.record.input_ids));
    entry->bytes = 0;
    start_waiting(*entry);
    entry->stage = Stage::waits_for_device;
    entry->place = device_queue.push(entry->job.key, entry->tokens, entry);
    device_work.notify_one();
  }

  // False when the entry has to wait for others' pictures, or is not wanted any more. Lock held on entry and on return.
  bool take_media_turn(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Entry>& entry) {
    const auto is_full = [this] { return media_at_work >= options.max_media_requests; };
    if (is_full() && !entry->is_cancelled && entry->job.set_aside) {
      lock.unlock();
      entry->job.set_aside();
      lock.lock();
    }
    if (entry->is_cancelled) {
      stop_waiting(*entry);
      end(*entry);
      return false;
    }
    if (is_full()) {
      entry->stage = Stage::waits_for_media;
      media_waiting.push_back(entry);
      return false;
    }
    ++media_at_work;
    entry->holds_media = true;
    return true;
  }

  // A guess of at least 1, before anyone has tokenized it.
  std::int64_t guessed_tokens(std::size_t bytes) const {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(bytes) / kBytesAToken, 1, options.max_request_tokens);
  }

  Status check_room(std::size_t bytes) const {
    const std::int64_t tokens = guessed_tokens(bytes);
    if (waiting_requests == 0) return {};
    if (waiting_tokens + tokens > options.max_queue_tokens) {
      return Error{Errc::busy, fmt::format("the queue is full: {} requests of {} tokens wait, {} more do not fit in {}",
                                           waiting_requests, waiting_tokens, tokens, options.max_queue_tokens)};
    }
    if (waiting_bytes + bytes > options.max_queue_bytes) {
      return Error{Errc::busy, fmt::format("the queue is full: {} requests of {} bytes wait, {} more do not fit in {}",
                                           waiting_requests, waiting_bytes, bytes, options.max_queue_bytes)};
    }
    return {};
  }

  static Error too_late() { return {Errc::timeout, "the request's deadline passed while it waited for its turn"}; }

  // The next pass: from the front of the queue as long as it fits, so that no record overtakes another.
  Entries next_batch() {
    Entries batch;
    std::int64_t tokens = 0;
    while (!device_queue.empty() && std::ssize(batch) < options.max_batch_requests) {
      const std::int64_t length = device_queue.front()->tokens;
      if (!batch.empty() && tokens + length > options.max_batch_tokens) break;
      std::shared_ptr<Entry> entry = device_queue.pop();
      stop_waiting(*entry);
      if (Clock::now() >= entry->job.deadline) {
        finish(std::move(entry), too_late());
        continue;
      }
      entry->stage = Stage::on_device;
      tokens += length;
      batch.push_back(std::move(entry));
    }
    running_requests = std::ssize(batch);
    running_tokens = tokens;
    return batch;
  }

  void run_pass(std::unique_lock<std::mutex>& lock, const Entries& batch) {
    PassReport report{.requests = running_requests, .tokens = running_tokens};
    running_since = Clock::now();
    const Clock::time_point start = running_since;
    lock.unlock();
    std::vector<const EncodedRecord*> records;
    for (const auto& entry : batch) records.push_back(&entry->outcome.prepared.record);
    std::vector<Result<Decisions>> results = decide(records);
    CHECK(results.size() == batch.size(), "{} results for {} records", results.size(), batch.size());
    report.seconds = seconds_between(start, Clock::now());
    report.has_failed = std::any_of(results.begin(), results.end(),
                                    [](const auto& result) { return !result && is_devices(result.error().code); });
    for (const auto& result : results) {
      if (!result && result.error().code == Errc::device_lost) report.loss = result.error();
    }
    if (options.observe) options.observe(report);
    lock.lock();
    failed_passes_in_a_row = report.has_failed ? failed_passes_in_a_row + 1 : 0;
    if (report.loss) loss = std::move(report.loss);
    running_requests = running_tokens = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      Entry& entry = *batch[i];
      entry.outcome.prepared.record.media.clear();
      if (entry.is_cancelled) {
        end(entry);
        continue;
      }
      if (!results[i]) {
        finish(batch[i], std::move(results[i]).error());
        continue;
      }
      entry.outcome.decisions = std::move(results[i]).value();
      entry.outcome.queue_seconds = seconds_between(entry.submitted, start);
      entry.outcome.pass_seconds = report.seconds;
      entry.outcome.pass_requests = report.requests;
      finish(batch[i], std::move(entry.outcome));
    }
  }

  void serve_host() {
    std::unique_lock lock(mutex);
    while (true) {
      host_work.wait(lock, [&] { return stopping || !finishing.empty() || !host_queue.empty(); });
      if (stopping) return;
      if (finishing.empty()) {
        prepare_next(lock);
        continue;
      }
      std::function<void()> work = std::move(finishing.front());
      finishing.pop_front();
      lock.unlock();
      try {
        work();
      } catch (const std::bad_alloc&) {
        // With no memory to say it in, nobody is told: who asked has a deadline.
      }
      work = nullptr;
      lock.lock();
    }
  }

  void serve_device() {
    std::unique_lock lock(mutex);
    while (true) {
      device_work.wait(lock, [&] { return stopping || !device_queue.empty(); });
      if (stopping) return;
      const Entries batch = next_batch();
      if (!batch.empty()) run_pass(lock, batch);
    }
  }
};

void Scheduler::Ticket::cancel() {
  if (entry_ == nullptr) return;
  State& state = *scheduler_->state_;
  Job dropped;  // destroyed after the lock is let go of: they may own much, or call back
  Outcome half_done;
  const std::lock_guard lock(state.mutex);
  Entry& entry = *entry_;
  switch (entry.stage) {
    case Entry::Stage::waits_for_host:
    case Entry::Stage::waits_for_media:
    case Entry::Stage::waits_for_device:
      if (entry.stage == Entry::Stage::waits_for_host) state.host_queue.erase(entry.place);
      if (entry.stage == Entry::Stage::waits_for_media) std::erase(state.media_waiting, entry_);
      if (entry.stage == Entry::Stage::waits_for_device) state.device_queue.erase(entry.place);
      state.stop_waiting(entry);
      state.end(entry);
      dropped = std::move(entry.job);
      half_done = std::move(entry.outcome);
      break;
    case Entry::Stage::on_host:
    case Entry::Stage::on_device:
      entry.is_cancelled = true;
      break;
    case Entry::Stage::over:
      break;
  }
}

Scheduler::Scheduler(Run run, SchedulerOptions options) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.run = std::move(run);
  state.options = std::move(options);
  state.device_thread = std::thread([&state] { state.serve_device(); });
  const int threads = state.options.host_threads > 0 ? state.options.host_threads : available_cpus();
  for (int i = 0; i < threads; ++i) state.host_threads.emplace_back([&state] { state.serve_host(); });
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->host_work.notify_all();
  state_->device_work.notify_all();
  state_->device_thread.join();
  for (std::thread& thread : state_->host_threads) thread.join();
}

Result<Scheduler::Ticket> Scheduler::submit(Job job) {
  auto entry = std::make_shared<Ticket::Entry>();
  entry->tokens = state_->guessed_tokens(job.bytes);
  entry->bytes = job.bytes;
  entry->submitted = Clock::now();
  entry->job = std::move(job);
  const std::lock_guard lock(state_->mutex);
  TRY(state_->check_room(entry->bytes));
  state_->start_waiting(*entry);
  entry->place = state_->host_queue.push(entry->job.key, entry->tokens, entry);
  state_->host_work.notify_one();
  return Ticket(this, std::move(entry));
}

bool Scheduler::has_room(std::size_t bytes) const {
  const std::lock_guard lock(state_->mutex);
  return state_->check_room(bytes).has_value();
}

Scheduler::Load Scheduler::load() const {
  const std::lock_guard lock(state_->mutex);
  return {.waiting_requests = state_->waiting_requests,
          .waiting_tokens = state_->waiting_tokens,
          .waiting_bytes = state_->waiting_bytes,
          .running_requests = state_->running_requests,
          .running_tokens = state_->running_tokens,
          .running_seconds = state_->running_requests > 0 ? seconds_between(state_->running_since, Clock::now()) : 0,
          .failed_passes_in_a_row = state_->failed_passes_in_a_row,
          .loss = state_->loss};
}

}  // namespace clef
