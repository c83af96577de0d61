// Barriers in shared memory and bulk copies that report to them. Source: PTX ISA, "mbarrier", "cp.async.bulk".
#pragma once

#include <cstdint>

#include "backend/cuda/tile.cuh"

namespace clef::cuda {

__device__ __forceinline__ void barrier_init(std::uint64_t& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(arrivals) : "memory");
}
// After the barriers' inits and before a __syncthreads().
__device__ __forceinline__ void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(std::uint64_t& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}
__device__ __forceinline__ void barrier_arrive_expecting(std::uint64_t& barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes)
               : "memory");
}
// Waits for the end of the barrier's phase: the count-th phase, from 0, has ended.
__device__ __forceinline__ void barrier_wait(std::uint64_t& barrier, int count) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}\n" ::"r"(shared_address(&barrier)),
      "r"(count % 2)
      : "memory");
}

// Both 16-byte aligned, bytes a multiple of 16.
__device__ __forceinline__ void bulk_load(void* shared, const void* global, unsigned bytes, std::uint64_t& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}
__device__ __forceinline__ void bulk_store(void* global, const void* shared, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared_address(shared)),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void bulk_stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until shared memory may be written again, by the thread that stored.
__device__ __forceinline__ void bulk_stores_wait() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }

}  // namespace clef::cuda
