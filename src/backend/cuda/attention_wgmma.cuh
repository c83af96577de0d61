// wgmma, the matrix instructions of a warpgroup (sm_90a), in the shapes that attention uses, and the copies and
// barriers that feed them. Operands in shared memory lie as the copy engine writes them with its 128-byte swizzle: rows
// of 64 halves, the 16-byte words of row r permuted by r % 8, each tile on 1,024 bytes.
// Source: PTX ISA 9.0, 9.7.15.5.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <type_traits>

#include "backend/cuda/tile.cuh"

namespace clef::cuda {

inline constexpr int kWarpgroup = 128;
inline constexpr int kChunk = 64;           // halves in a swizzled row
inline constexpr int kChunkRowBytes = 128;  // the same in bytes
inline constexpr int kAtomBytes = 1024;     // eight such rows, after which the swizzle repeats

// --- barriers in shared memory ---

__device__ __forceinline__ void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes the initial state known to the copy engine.
__device__ __forceinline__ void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives, and holds the phase until `bytes` more have been copied.
__device__ __forceinline__ void barrier_arrive_expecting(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
// Waits for the end of the phase of this parity; a fresh barrier counts as having ended the phase of parity 1.
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// All 128 threads of one warpgroup; barrier 0 is __syncthreads.
__device__ __forceinline__ void warpgroup_sync(int warpgroup) {
  asm volatile("bar.sync %0, 128;" ::"r"(warpgroup + 1) : "memory");
}

// Orders this thread's own accesses to shared memory before those of the copy engine and the tensor cores.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- the copy engine ---

__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// One box of a tensor [z, y, x], whose first element is (x, y, z); what lies outside the tensor arrives as zeros.
__device__ __forceinline__ void copy_box(std::uint32_t shared, const CUtensorMap* map, std::uint32_t barrier, int x,
                                         int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

// The same box as far as the second-level cache.
__device__ __forceinline__ void prefetch_box(const CUtensorMap* map, int x, int y, int z) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y), "r"(z)
               : "memory");
}

// --- wgmma ---

// A descriptor's low word: where the tile starts and, for one whose rows run across the summed index (values), how many
// bytes lie between one 64 columns and the next. Both count in 16 bytes: a tile n bytes further on has n / 16 more.
__device__ __forceinline__ std::uint32_t descriptor(std::uint32_t shared, int chunk_bytes = 16) {
  return static_cast<std::uint32_t>(chunk_bytes / 16) << 16 | (shared & 0x3ffffu) >> 4;
}
// The high word is the same for all: the 128-byte swizzle, and eight rows from one group of eight to the next.
__device__ __forceinline__ std::uint64_t whole_descriptor(std::uint32_t low) {
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 62 | std::uint64_t{kAtomBytes / 16} << 32;
  return kHigh | low;
}

// Orders register writes before the products that read them; first thing before a run of wgmma.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Registers that a wgmma may still be writing or reading: the compiler must neither read them early nor reuse them.
template <typename T, int kCount>
__device__ __forceinline__ void pin(T (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      asm volatile("" : "+f"(registers[i])::"memory");
    } else {
      asm volatile("" : "+r"(registers[i])::"memory");
    }
  }
}

// sum[64, 2*kCount] = or += a[64, 16] * b[2*kCount, 16]^T, both in shared memory; `accumulate` chooses.
// A lane's part of the sum is laid out as mma.sync's: four values for every eight columns.
template <int kCount>
__device__ void wgmma(float (&sum)[kCount], std::uint32_t a, std::uint32_t b, bool accumulate);

// sum[64, 2*kCount] += a[64, 16] * b[16, 2*kCount], a in registers as mma.sync's left operand.
template <int kCount>
__device__ void wgmma(float (&sum)[kCount], const std::uint32_t (&a)[4], std::uint32_t b);

#define CLEF_FOUR(x, i) "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3])
#define CLEF_EIGHT(x, i) CLEF_FOUR(x, i), CLEF_FOUR(x, i + 4)

template <>
__device__ __forceinline__ void wgmma<40>(float (&sum)[40], std::uint32_t a, std::uint32_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %42, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n80k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39"
      "}, %40, %41, p, 1, 1, 0, 0;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_EIGHT(sum, 32)
      : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void wgmma<48>(float (&sum)[48], std::uint32_t a, std::uint32_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
      "}, %48, %49, p, 1, 1, 0, 0;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_EIGHT(sum, 32),
        CLEF_EIGHT(sum, 40)
      : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void wgmma<36>(float (&sum)[36], const std::uint32_t (&a)[4], std::uint32_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n72k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35"
      "}, {%36, %37, %38, %39}, %40, p, 1, 1, 1;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_FOUR(sum, 32)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(whole_descriptor(b)));
}

template <>
__device__ __forceinline__ void wgmma<128>(float (&sum)[128], const std::uint32_t (&a)[4], std::uint32_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, {%128, %129, %130, %131}, %132, p, 1, 1, 1;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_EIGHT(sum, 32),
        CLEF_EIGHT(sum, 40), CLEF_EIGHT(sum, 48), CLEF_EIGHT(sum, 56), CLEF_EIGHT(sum, 64), CLEF_EIGHT(sum, 72),
        CLEF_EIGHT(sum, 80), CLEF_EIGHT(sum, 88), CLEF_EIGHT(sum, 96), CLEF_EIGHT(sum, 104), CLEF_EIGHT(sum, 112),
        CLEF_EIGHT(sum, 120)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(whole_descriptor(b)));
}

#undef CLEF_EIGHT
#undef CLEF_FOUR

}  // namespace clef::cuda
