// From requests of many clients to passes of one device: host work on a pool, one queue, one device thread.
//
//   submit -> host queue -> prepare (pool) -> device queue -> run (device thread) -> done (pool)
//
// Both queues are fair between keys. What waits is bounded in tokens; a job can be cancelled wherever it is.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace clef {

struct PassReport {
  std::int64_t requests = 0;
  std::int64_t tokens = 0;
  double seconds = 0;
  bool has_failed = false;         // for a reason of the device's
  std::optional<Error> loss = {};  // of the device, for good
};

struct SchedulerOptions {
  int host_threads = 0;                     // that parse, tokenize and write answers; 0: one a CPU
  std::int64_t max_batch_requests = 8;      // of one pass
  std::int64_t max_batch_tokens = 4096;     // of one pass; a longer record runs alone
  std::int64_t max_queue_tokens = 1 << 18;  // of all that waits; a job that finds nothing waiting is always taken
  std::size_t max_queue_bytes = 256 << 20;  // of the bodies among that, which are gone once prepared
  // No record is longer. Pictures have far more bytes than a token for four: a guess ends here.
  std::int64_t max_request_tokens = 16384;
  std::int64_t max_media_requests = 8;                  // whose pictures are decoded and not yet through their pass
  std::function<void(const PassReport&)> observe = {};  // after each pass, from the device thread
};

class Scheduler {
 public:
  using Clock = std::chrono::steady_clock;
  // The device's share of the work, as Engine::run.
  using Run = std::function<std::vector<Result<Decisions>>(std::span<const EncodedRecord* const>)>;

  struct Outcome {
    Engine::Prepared prepared;
    Decisions decisions;
    double queue_seconds = 0;  // from submit to the pass, preparing included
    double pass_seconds = 0;
    std::int64_t pass_requests = 0;
  };

  struct Job {
    std::string key;                                        // whose: queues are fair between keys
    std::size_t bytes = 0;                                  // of input; until prepared it counts a token for four
    Clock::time_point deadline = Clock::time_point::max();  // to be in a pass by; else Errc::timeout
    // Whether there are pictures to decode: asked once, on a thread of the pool. Pixels take far more memory than the
    // request that asks for them; a job that may not decode yet waits with its body alone.
    std::function<bool()> has_media = {};
    // Called when it has to wait so: gives back what asking took.
    std::function<void()> set_aside = {};
    std::function<Result<Engine::Prepared>()> prepare;  // on a thread of the pool
    std::function<void(Result<Outcome>)> done;          // on a thread of the pool, once; not at all when cancelled
  };

  // A job on its way. Letting go of it changes nothing.
  class Ticket {
   public:
    Ticket() = default;
    // What waits is dropped at once, what runs when its pass ends. `done` is not called unless it already began.
    void cancel();

   private:
    friend class Scheduler;
    struct Entry;
    Ticket(Scheduler* scheduler, std::shared_ptr<Entry> entry) : scheduler_(scheduler), entry_(std::move(entry)) {}
    Scheduler* scheduler_ = nullptr;
    std::shared_ptr<Entry> entry_;
  };

  Scheduler(Run run, SchedulerOptions options);
  // Ends after the running pass; what still waits is dropped without a word. Tickets must be let go of first.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Errc::busy when too much waits already.
  Result<Ticket> submit(Job job);
  // Whether a job of so many bytes would be taken now.
  bool has_room(std::size_t bytes) const;

  struct Load {
    std::int64_t waiting_requests = 0;  // for the pool or for the device
    std::int64_t waiting_tokens = 0;    // theirs, as far as known
    std::size_t waiting_bytes = 0;      // of bodies not prepared
    std::int64_t running_requests = 0;
    std::int64_t running_tokens = 0;
    double running_seconds = 0;               // of the pass that runs now
    std::int64_t failed_passes_in_a_row = 0;  // for a reason of the device's
    std::optional<Error> loss;                // of the device, for good
  };
  Load load() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clef
