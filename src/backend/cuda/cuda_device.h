// An NVIDIA GPU as a Device: weights are copied to it as FP16, activations between products are FP16.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/result.h"
#include "ops/device.h"

namespace clef {

struct CudaOptions {
  int index = 0;                               // among the GPUs that CUDA shows
  int num_threads = 0;                         // that copy weights; 0: one for each CPU this process may use
  std::optional<std::int64_t> precise_layers;  // first layers that keep f32 activations; none: the model's choice
  DType activation = DType::f16;               // f32: every product in two planes; slow, and as exact as the CPU
};

// Errc::unsupported without a driver, a GPU of that number, or the libraries it takes; the message says which.
Result<std::unique_ptr<Device>> open_cuda_device(const CudaOptions& options);

struct CudaGpu {
  std::string name;
  int major = 0, minor = 0;
  std::size_t free_bytes = 0, total_bytes = 0;
};
// The GPUs that can be used; the error says why there are none.
Result<std::vector<CudaGpu>> list_cuda_gpus();

}  // namespace clef
