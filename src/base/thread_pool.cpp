#include "base/thread_pool.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace clef {

int available_cpus() {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable started, finished;
  std::uint64_t generation = 0;  // guarded by mutex
  int running = 0;               // workers still inside the current generation; guarded by mutex
  bool stopping = false;         // guarded by mutex
  const std::function<void(std::int64_t, int)>* work = nullptr;
  std::int64_t count = 0;
  std::atomic<std::int64_t> next{0};
  std::vector<std::thread> threads;

  void drain(int thread) {
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) (*work)(i, thread);
  }

  void serve(int thread) {
    std::uint64_t seen = 0;
    for (;;) {
      {
        std::unique_lock lock(mutex);
        started.wait(lock, [&] { return stopping || generation != seen; });
        if (stopping) return;
        seen = generation;
      }
      drain(thread);
      {
        const std::lock_guard lock(mutex);
        if (--running == 0) finished.notify_one();
      }
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : state_(std::make_unique<State>()) {
  if (num_threads <= 0) num_threads = available_cpus();
  for (int i = 1; i < num_threads; ++i) state_->threads.emplace_back([this, i] { state_->serve(i); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->started.notify_all();
  for (auto& thread : state_->threads) thread.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(state_->threads.size()) + 1; }

void ThreadPool::for_each(std::int64_t count, const std::function<void(std::int64_t, int)>& work) {
  State& s = *state_;
  if (s.threads.empty() || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) work(i, 0);
    return;
  }
  {
    const std::lock_guard lock(s.mutex);
    s.work = &work;
    s.count = count;
    s.next.store(0, std::memory_order_relaxed);
    s.running = static_cast<int>(s.threads.size());
    ++s.generation;
  }
  s.started.notify_all();
  s.drain(0);
  std::unique_lock lock(s.mutex);
  s.finished.wait(lock, [&] { return s.running == 0; });
  s.work = nullptr;
}

}  // namespace clef
