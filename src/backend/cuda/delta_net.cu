// DeltaNet's launchers: two passes over chunks where the device and the shape allow it, else the plain recurrence.
#include "backend/cuda/delta_net.h"

#include <utility>

#include "backend/cuda/delta_net_tile.cuh"

namespace clef::cuda {
namespace {

struct Schedule {
  bool in_chunks, in_halves;
};

cudaError_t choose(const DeltaNetArgs& args, Schedule& schedule) {
  int device = 0, major = 0, multiprocessors = 0;
  if (const cudaError_t status = cudaGetDevice(&device); status != cudaSuccess) return status;
  for (const auto& [value, attribute] : {std::pair{&major, cudaDevAttrComputeCapabilityMajor},
                                         std::pair{&multiprocessors, cudaDevAttrMultiProcessorCount}}) {
    if (const cudaError_t status = cudaDeviceGetAttribute(value, attribute, device); status != cudaSuccess) {
      return status;
    }
  }
  // The passes need Hopper's warpgroup products, which no other generation has.
  schedule.in_chunks = major == 9 && args.value_heads % args.key_heads == 0;
  schedule.in_halves = 2 * args.value_heads * args.sequences <= multiprocessors;
  return cudaSuccess;
}

cudaError_t launch_chunks(const DeltaNetArgs& args, bool in_halves, cudaStream_t stream) {
  if (args.workspace_bytes < delta_net_workspace(args.tokens, args.sequences, args.key_heads, args.value_heads)) {
    return cudaErrorInvalidValue;
  }
  if (const cudaError_t status = launch_delta_net_prepare(args, stream); status != cudaSuccess) return status;
  return launch_delta_net_scan(args, in_halves, stream);
}

}  // namespace

std::size_t delta_net_workspace(int tokens, int sequences, int /*key_heads*/, int value_heads) {
  return static_cast<std::size_t>(slot_count(tokens, sequences)) * static_cast<std::size_t>(value_heads) *
         sizeof(ChunkRecord);
}

cudaError_t launch_delta_net(const DeltaNetArgs& args, cudaStream_t stream) {
  if (args.tokens == 0 || args.sequences == 0) return cudaSuccess;
  Schedule schedule{};
  if (const cudaError_t status = choose(args, schedule); status != cudaSuccess) return status;
  if (!schedule.in_chunks) return launch_delta_net_plain(args, stream);
  return launch_chunks(args, schedule.in_halves, stream);
}

}  // namespace clef::cuda
