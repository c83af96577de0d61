// Weights from mapped files to the GPU: copied to pinned memory by several threads, sent, and re-encoded there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/context.h"
#include "base/result.h"
#include "base/thread_pool.h"

namespace clef::cuda {

struct UploadReport {
  std::uint64_t values = 0, rounded = 0;   // of all weights so far; rounded: those that FP16 could not hold exactly
  std::uint64_t bytes = 0, low_bytes = 0;  // low: of the E4M3 copies beside them
};

class WeightUpload {
 public:
  WeightUpload(cudaStream_t stream, int num_threads) : stream_(stream), pool_(num_threads) {}
  ThreadPool& pool() { return pool_; }
  ~WeightUpload();
  WeightUpload(const WeightUpload&) = delete;
  WeightUpload& operator=(const WeightUpload&) = delete;

  // So many bytes will be adopted: one slab, the next, holds them.
  void expect(std::size_t bytes);
  // What adopt() takes of a slab.
  static std::size_t placed_bytes(const Tensor& shape);
  // Weights that follow each other here follow each other on the device, as long as a slab lasts. The buffer belongs to
  // this object. Errc::bad_model for values that are not finite, Errc::unsupported for F32 weights with more bits than
  // FP16 has.
  Result<Tensor> adopt(std::span<const std::byte> mapped, const Tensor& shape);
  // Makes the E4M3 copy of a weight that adopt() gave; they follow each other too. low_bytes: what it takes.
  static std::size_t placed_low_bytes(const Tensor& weight);
  Status adopt_low(const Tensor& weight);
  // Gives back the pinned memory; a later adopt() takes it again.
  void release_staging();
  const UploadReport& report() const { return report_; }

 private:
  Result<std::byte*> place(std::size_t bytes);
  Status stage(std::span<const std::byte> mapped, const Tensor& shape, std::byte* to, int exponent);
  Result<struct ReencodeCounts> counts();

  static constexpr int kStages = 3;
  cudaStream_t stream_;
  ThreadPool pool_;
  std::vector<void*> slabs_;
  std::byte* slab_ = nullptr;
  std::size_t slab_left_ = 0;
  std::size_t expected_ = 0;
  std::byte* staging_[kStages] = {};
  cudaEvent_t sent_[kStages] = {};
  void* incoming_ = nullptr;  // on the device, for types wider than FP16
  void* counts_ = nullptr;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  UploadReport report_;
};

}  // namespace clef::cuda
