// Threads that share out the outputs of one piece of work, never a reduction.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace clef {

class ThreadPool {
 public:
  // num_threads counts the caller: 1 starts no thread at all. 0 takes the number of CPUs this process may use.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Calls work(index, thread) once for each index in [0, count), from the pool's threads and the caller, and returns
  // when all are done. `thread` is in [0, num_threads()): index into per-thread scratch. Which thread takes which index
  // is open, so work must not depend on it. One caller at a time.
  void for_each(std::int64_t count, const std::function<void(std::int64_t index, int thread)>& work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

int available_cpus();

}  // namespace clef
