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

// A tensor of kRank dimensions, the first contiguous and the others `strides` bytes apart, in boxes of one swizzled row
// of 128 bytes and as many of each other dimension as `box` says. What lies outside is zero. False where there is no
// driver or it refuses.
template <int kRank>
bool encode_boxes(CUtensorMap& map, CUtensorMapDataType type, const void* data, const cuuint64_t (&sizes)[kRank],
                  const cuuint64_t (&strides)[kRank - 1], const cuuint32_t (&box)[kRank]) {
  cuuint32_t steps[kRank];
  for (cuuint32_t& step : steps) step = 1;
  return encode_tiled() != nullptr &&
         encode_tiled()(&map, type, kRank, const_cast<void*>(data), sizes, strides, box, steps,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// Of the current device; 0 when it cannot be asked.
inline int multiprocessors() {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) return 0;
  return count;
}

}  // namespace clef::cuda
