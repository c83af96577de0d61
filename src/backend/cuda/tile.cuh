// The machine's words that several kernels use: copies into shared memory, matrix fragments and their products. Each is
// one PTX instruction (PTX ISA 9.0) or a handful; what they cost and when to use them stands in the kernels.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

namespace clef::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kFullWarp = 0xffffffffu;

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ std::uint32_t load_word(std::uint32_t shared) {
  std::uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(shared) : "memory");
  return word;
}
__device__ __forceinline__ void store_word(std::uint32_t shared, std::uint32_t word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(word) : "memory");
}
__device__ __forceinline__ uint4 load_words(std::uint32_t shared) {
  uint4 words;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "r"(shared)
               : "memory");
  return words;
}
__device__ __forceinline__ void store_words(std::uint32_t shared, uint4 words) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(words.x), "r"(words.y), "r"(words.z),
               "r"(words.w)
               : "memory");
}

// 16 bytes from global to shared memory, behind the thread's back; zeros where `inside` is false, and then nothing is
// read, but the address must still be one of the tensor's.
__device__ __forceinline__ void copy_async_16(std::uint32_t shared, const void* global, bool inside) {
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Four 8x8 matrices of 16-bit values; lane l names a row of matrix l / 8. With `transposed`, of their transposes.
__device__ __forceinline__ void load_matrices(std::uint32_t (&fragment)[4], std::uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared)
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&fragment)[4], std::uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(shared)
               : "memory");
}

// sum[16, 8] += a[16, 16] * b[16, 8], FP16 into FP32. In lane l, sum holds columns 2*(l%4) and the next of rows l/4
// and l/4 + 8.
__device__ __forceinline__ void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                             std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 2^x to two units in the last place; subnormal results are zero.
__device__ __forceinline__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 1/x to one unit in the last place.
__device__ __forceinline__ float reciprocal_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// x / (1 + 2^-p), to a few units in the last place. The forms that do not flush what is below the normal numbers cost
// tests and products for each of the two approximations.
__device__ __forceinline__ float times_logistic(float x, float p) {
  return x * reciprocal_approximate(1.0F + exp2_approximate(-p));
}
inline constexpr float kLog2E = 1.44269504088896340736F;
// x / (1 + e^-x); zero for what is far below zero.
__device__ __forceinline__ float fast_silu(float x) { return times_logistic(x, kLog2E * x); }

__device__ __forceinline__ std::uint32_t pack_halves(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  std::uint32_t bits;
  memcpy(&bits, &both, sizeof bits);
  return bits;
}
__device__ __forceinline__ float2 unpack_halves(std::uint32_t bits) {
  __half2 both;
  memcpy(&both, &bits, sizeof bits);
  return __half22float2(both);
}

}  // namespace clef::cuda
