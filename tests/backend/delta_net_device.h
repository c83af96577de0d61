// What the device tests of Gated DeltaNet share: arrays on the device, what is expected, times.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "delta_net_reference.h"

namespace clef::cuda::test {

inline int failures = 0;

inline void must(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("FAILED %s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}
#define MUST(call) must(call, #call)

inline void expect(bool good, const std::string& what) {
  if (!good) ++failures;
  std::printf("%s %s\n", good ? "ok    " : "FAILED", what.c_str());
}

template <typename T>
class Array {
 public:
  Array() = default;
  explicit Array(std::size_t count) : count_(count) {
    MUST(cudaMalloc(&data_, std::max<std::size_t>(count, 1) * sizeof(T)));
    MUST(cudaMemset(data_, 0xFF, std::max<std::size_t>(count, 1) * sizeof(T)));  // NaN: what is not written shows
  }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    MUST(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  Array(Array&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  Array& operator=(Array&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Array() { cudaFree(data_); }
  T* data() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    MUST(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

// Relative L2 error of values first to last - 1; NaN anywhere gives NaN.
template <typename T>
double error(const std::vector<T>& got, const std::vector<double>& want, std::size_t first = 0,
             std::size_t last = std::numeric_limits<std::size_t>::max()) {
  double difference = 0, norm = 0;
  for (std::size_t i = first; i < std::min(last, got.size()); ++i) {
    difference += std::pow(to_double(got[i]) - want[i], 2);
    norm += want[i] * want[i];
  }
  return std::sqrt(difference / norm);
}
inline void expect_error(double e, double bound, const std::string& what) {
  char text[64];
  std::snprintf(text, sizeof text, ": relative L2 error %.2e, at most %.1e", e, bound);
  expect(e <= bound, what + text);
}

template <typename T>
bool same_bits(const std::vector<T>& a, std::size_t a_first, const std::vector<T>& b, std::size_t b_first,
               std::size_t count) {
  return std::memcmp(&a[a_first], &b[b_first], count * sizeof(T)) == 0;
}

inline float microseconds(const std::function<void(cudaStream_t)>& work) {
  cudaStream_t stream;
  MUST(cudaStreamCreate(&stream));
  constexpr int kInGraph = 10, kReplays = 5;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kInGraph; ++i) work(stream);
  MUST(cudaStreamEndCapture(stream, &graph));
  MUST(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t begin, end;
  MUST(cudaEventCreate(&begin));
  MUST(cudaEventCreate(&end));
  MUST(cudaGraphLaunch(exec, stream));
  std::vector<float> times;
  for (int i = 0; i < kReplays; ++i) {
    MUST(cudaEventRecord(begin, stream));
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaEventRecord(end, stream));
    MUST(cudaEventSynchronize(end));
    float ms = 0;
    MUST(cudaEventElapsedTime(&ms, begin, end));
    times.push_back(ms * 1000 / kInGraph);
  }
  std::sort(times.begin(), times.end());
  MUST(cudaGraphExecDestroy(exec));
  MUST(cudaGraphDestroy(graph));
  MUST(cudaEventDestroy(begin));
  MUST(cudaEventDestroy(end));
  MUST(cudaStreamDestroy(stream));
  return times[times.size() / 2];
}

}  // namespace clef::cuda::test
