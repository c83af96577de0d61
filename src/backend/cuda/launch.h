// How kernels follow each other on a stream. A kernel that is started here may begin before the one ahead of it has
// ended, so that its start costs nothing; it says wait_for_inputs() before it touches what an earlier kernel reads or
// writes, and let_next_start() as soon as it likes. Source: CUDA C++ Programming Guide, "Programmatic Dependent
// Launch".
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <utility>

namespace clef::cuda {

inline constexpr int kMostDevices = 32;  // of a process

class Launch {
 public:
  Launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream) {
    config_.gridDim = grid;
    config_.blockDim = block;
    config_.dynamicSmemBytes = shared_bytes;
    config_.stream = stream;
    config_.attrs = attributes_;
    if (!overlaps()) return;
    config_.numAttrs = 1;
    attributes_[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes_[0].val.programmaticStreamSerializationAllowed = 1;
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  void set_cluster(int blocks) {
    cudaLaunchAttribute& attribute = attributes_[config_.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = static_cast<unsigned>(blocks);
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  }
  cudaLaunchConfig_t& config() { return config_; }

  template <typename... Parameters, typename... Arguments>
  cudaError_t run(void (*kernel)(Parameters...), Arguments&&... arguments) const {
    return cudaLaunchKernelEx(&config_, kernel, std::forward<Arguments>(arguments)...);
  }

 private:
  // Hopper and later can. Asked once a device.
  static bool overlaps() {
    enum : signed char { unknown, no, yes };
    static std::atomic<signed char> known[kMostDevices] = {};
    int device = 0, major = 0;
    if (cudaGetDevice(&device) != cudaSuccess || device >= kMostDevices) return false;
    if (known[device] == unknown) {
      const bool can =
          cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
      known[device] = can ? yes : no;
    }
    return known[device] == yes;
  }

  cudaLaunchConfig_t config_{};
  cudaLaunchAttribute attributes_[2]{};
};

#ifdef __CUDACC__
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#endif

}  // namespace clef::cuda
