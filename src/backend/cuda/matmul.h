// Matrix products by cuBLASLt, which is looked for when a device is opened: a program that links this starts without
// it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>

#include "base/result.h"

namespace clef::cuda {

// y = alpha * x * w^T + beta * y + bias.  x [rows, depth] and w [columns, depth] f16, sums f32, y [rows, columns].
struct Product {
  std::int64_t rows = 0, columns = 0, depth = 0;
  const void* x = nullptr;
  std::int64_t x_stride = 0;  // elements
  const void* w = nullptr;    // rows contiguous
  void* y = nullptr;
  std::int64_t y_stride = 0;
  bool y_is_f32 = false;
  float alpha = 1, beta = 0;
  const float* bias = nullptr;  // [columns], or none; with an f32 y only
};

// Invariance: a row's bits do not depend on `rows` when rows >= kFewestRows: no split of the depth is allowed, and what
// is left to the heuristic (tiles, stages, clusters) leaves the order of the sums alone. The tests hold it to that.
inline constexpr std::int64_t kFewestRows = 32;

class Matmul {
 public:
  Matmul();
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // Errc::unsupported when the library cannot be loaded. On the current device.
  Status open();
  Status run(const Product& product, cudaStream_t stream);

 private:
  struct Library;
  struct Plan;
  using Key = std::array<std::int64_t, 6>;
  Result<const Plan*> plan(const Product& product);
  std::unique_ptr<Library> library_;
  std::map<Key, Plan> plans_;
  void* workspace_ = nullptr;
};

}  // namespace clef::cuda
