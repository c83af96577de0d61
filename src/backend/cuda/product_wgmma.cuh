// wgmma in the shapes of the model's matrix products, both operands in shared memory.
#pragma once

#include "backend/cuda/attention_wgmma.cuh"

namespace clef::cuda {

// sum[64, 2*kCount] = or += a[64, 16] * b[2*kCount, 16]^T; `accumulate` chooses. A lane's part of the sum is laid out
// as mma.sync's: four values for every eight columns.
template <int kCount>
__device__ void product_step(float (&sum)[kCount], std::uint32_t a, std::uint32_t b, bool accumulate);

// The same of E4M3: sum[64, 2*kCount] = or += a[64, 32] * b[2*kCount, 32]^T. A row of a tile has as many bytes, and so
// the descriptors are the same.
template <int kCount>
__device__ void low_product_step(float (&sum)[kCount], std::uint32_t a, std::uint32_t b, bool accumulate);

// An instruction names each of its registers, and its text must be a literal: hence these. CLEF_NAMES_n are the names
// of n sums, CLEF_SUMS_n the sums.
#define CLEF_FOUR(i) "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3])
#define CLEF_SIXTEEN(i) CLEF_FOUR(i), CLEF_FOUR(i + 4), CLEF_FOUR(i + 8), CLEF_FOUR(i + 12)
#define CLEF_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define CLEF_SUMS_16 CLEF_SIXTEEN(0)
#define CLEF_NAMES_32 \
  CLEF_NAMES_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define CLEF_SUMS_32 CLEF_SUMS_16, CLEF_SIXTEEN(16)
#define CLEF_NAMES_40 \
  CLEF_NAMES_32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39"
#define CLEF_SUMS_40 CLEF_SUMS_32, CLEF_FOUR(32), CLEF_FOUR(36)
#define CLEF_NAMES_44 \
  CLEF_NAMES_40       \
  ", %40, %41, %42, %43"
#define CLEF_SUMS_44 CLEF_SUMS_40, CLEF_FOUR(40)
#define CLEF_NAMES_48 \
  CLEF_NAMES_44       \
  ", %44, %45, %46, %47"
#define CLEF_SUMS_48 CLEF_SUMS_44, CLEF_FOUR(44)
#define CLEF_NAMES_56 \
  CLEF_NAMES_48       \
  ", %48, %49, %50, %51, %52, %53, %54, %55"
#define CLEF_SUMS_56 CLEF_SUMS_48, CLEF_FOUR(48), CLEF_FOUR(52)
#define CLEF_NAMES_64 \
  CLEF_NAMES_56       \
  ", %56, %57, %58, %59, %60, %61, %62, %63"
#define CLEF_SUMS_64 CLEF_SUMS_56, CLEF_FOUR(56), CLEF_FOUR(60)
#define CLEF_NAMES_72 \
  CLEF_NAMES_64       \
  ", %64, %65, %66, %67, %68, %69, %70, %71"
#define CLEF_SUMS_72 CLEF_SUMS_64, CLEF_FOUR(64), CLEF_FOUR(68)
#define CLEF_NAMES_80 \
  CLEF_NAMES_72       \
  ", %72, %73, %74, %75, %76, %77, %78, %79"
#define CLEF_SUMS_80 CLEF_SUMS_72, CLEF_FOUR(72), CLEF_FOUR(76)
#define CLEF_NAMES_88 \
  CLEF_NAMES_80       \
  ", %80, %81, %82, %83, %84, %85, %86, %87"
#define CLEF_SUMS_88 CLEF_SUMS_80, CLEF_FOUR(80), CLEF_FOUR(84)
#define CLEF_NAMES_96 \
  CLEF_NAMES_88       \
  ", %88, %89, %90, %91, %92, %93, %94, %95"
#define CLEF_SUMS_96 CLEF_SUMS_88, CLEF_FOUR(88), CLEF_FOUR(92)
#define CLEF_NAMES_112 \
  CLEF_NAMES_96        \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define CLEF_SUMS_112 CLEF_SUMS_96, CLEF_SIXTEEN(96)
#define CLEF_NAMES_128 \
  CLEF_NAMES_112       \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define CLEF_SUMS_128 CLEF_SUMS_112, CLEF_SIXTEEN(112)

#define CLEF_STEP(name, count, shape, last, a_at, b_at, if_at)                                                         \
  template <>                                                                                                          \
  __device__ __forceinline__ void name<count>(float(&sum)[count], std::uint32_t a, std::uint32_t b, bool accumulate) { \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #if_at ", 0;\nwgmma.mma_async.sync.aligned." shape               \
                 " {" CLEF_NAMES_##count "}, %" #a_at ", %" #b_at ", p, 1, 1" last ";\n}\n"                            \
                 : CLEF_SUMS_##count                                                                                   \
                 : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(static_cast<int>(accumulate)));             \
  }
// f16 may be transposed, which the last two numbers choose.
#define CLEF_STEPS(count, columns, a_at, b_at, if_at)                                            \
  CLEF_STEP(product_step, count, "m64n" #columns "k16.f32.f16.f16", ", 0, 0", a_at, b_at, if_at) \
  CLEF_STEP(low_product_step, count, "m64n" #columns "k32.f32.e4m3.e4m3", "", a_at, b_at, if_at)

CLEF_STEPS(16, 32, 16, 17, 18)
CLEF_STEPS(32, 64, 32, 33, 34)
CLEF_STEPS(40, 80, 40, 41, 42)
CLEF_STEPS(44, 88, 44, 45, 46)
CLEF_STEPS(48, 96, 48, 49, 50)
CLEF_STEPS(56, 112, 56, 57, 58)
CLEF_STEPS(64, 128, 64, 65, 66)
CLEF_STEPS(72, 144, 72, 73, 74)
CLEF_STEPS(80, 160, 80, 81, 82)
CLEF_STEPS(88, 176, 88, 89, 90)
CLEF_STEPS(96, 192, 96, 97, 98)
CLEF_STEPS(112, 224, 112, 113, 114)
CLEF_STEPS(128, 256, 128, 129, 130)

#undef CLEF_STEPS
#undef CLEF_STEP
#undef CLEF_SUMS_128
#undef CLEF_NAMES_128
#undef CLEF_SUMS_112
#undef CLEF_NAMES_112
#undef CLEF_SUMS_96
#undef CLEF_NAMES_96
#undef CLEF_SUMS_88
#undef CLEF_NAMES_88
#undef CLEF_SUMS_80
#undef CLEF_NAMES_80
#undef CLEF_SUMS_72
#undef CLEF_NAMES_72
#undef CLEF_SUMS_64
#undef CLEF_NAMES_64
#undef CLEF_SUMS_56
#undef CLEF_NAMES_56
#undef CLEF_SUMS_48
#undef CLEF_NAMES_48
#undef CLEF_SUMS_44
#undef CLEF_NAMES_44
#undef CLEF_SUMS_40
#undef CLEF_NAMES_40
#undef CLEF_SUMS_32
#undef CLEF_NAMES_32
#undef CLEF_SUMS_16
#undef CLEF_NAMES_16
#undef CLEF_SIXTEEN
#undef CLEF_FOUR

}  // namespace clef::cuda
