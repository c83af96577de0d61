// What the kernels' callers share: the stream, memory to work in, and the first thing that went wrong.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/matmul.h"
#include "backend/cuda/product_sm90.h"
#include "base/result.h"
#include "base/tensor.h"

namespace clef::cuda {

// Device memory in the order of a stream; grows to what was asked for and stays.
class Workspace {
 public:
  explicit Workspace(cudaStream_t stream) : stream_(stream) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  // At least `bytes`, aligned to 256; what it held is gone. Null, and the error, when there is no room.
  cudaError_t get(std::size_t bytes, void** memory);
  // The same by elements; the context has the error.
  template <typename T>
  T* get(std::int64_t count, struct Context& context);

 private:
  cudaStream_t stream_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

// A weight on the device: FP16 values times `scale`, a power of two.
struct WeightBuffer final : Buffer {
  WeightBuffer(void* data, std::size_t bytes, float scale_) : Buffer(data, bytes), scale(scale_) {}
  float scale;
  std::uint8_t* low = nullptr;  // the weight times 2^kLowWeightExponent as E4M3, for inputs with a low part; or none
};
// The weights of a trained layer lie in [2^-15, 0.875], where E4M3 then has all its four bits.
inline constexpr int kLowWeightExponent = 9;

struct Context {
  explicit Context(cudaStream_t stream_)
      : stream(stream_), planes(stream_), products(stream_), states(stream_), pixels(stream_), handovers(stream_) {}

  // Remembers the first failure of a pass; later work of the pass is pointless, and left out.
  void check(cudaError_t error, const char* what);
  void check(Status status);
  bool failed() const { return !status.has_value(); }
  Handover next_handover();

  cudaStream_t stream;
  int num_multiprocessors = 0;
  Matmul matmul;
  bool is_hopper = false;
  Workspace planes, products, states, pixels;  // of split inputs; of products before what follows; of recurrences
  Workspace handovers;                         // between the blocks of a product
  unsigned num_handovers = 0;
  Status status;
};

template <typename T>
T* Workspace::get(std::int64_t count, Context& context) {
  void* memory = nullptr;
  context.check(get(static_cast<std::size_t>(count) * sizeof(T), &memory), "memory beside an op");
  return static_cast<T*>(memory);
}

inline float scale_of(const Tensor& weight) { return static_cast<const WeightBuffer*>(weight.buffer)->scale; }
inline std::uint8_t* low_of(const Tensor& weight) { return static_cast<const WeightBuffer*>(weight.buffer)->low; }

}  // namespace clef::cuda
