// What the Hopper kernels' launchers ask of the driver and the device.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace clef::cuda {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's function, or null; found at run time, since the program must start where there is no driver.
inline EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<EncodeTiled>(found)
                                                                         : nullptr;
  }();
  return function;
}

// Of the current device; 0 when it cannot be asked.
inline int multiprocessors() {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) return 0;
  return count;
}

}  // namespace clef::cuda
