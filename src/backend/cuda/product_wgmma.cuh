// wgmma in the shapes of the model's matrix products, both operands in shared memory.
#pragma once

#include "backend/cuda/attention_wgmma.cuh"

namespace clef::cuda {

// sum[64, 2*kCount] = or += a[64, 16] * b[2*kCount, 16]^T; `accumulate` chooses. A lane's part of the sum is laid out
// as mma.sync's: four values for every eight columns.
template <int kCount>
__device__ void product_step(float (&sum)[kCount], std::uint32_t a, std::uint32_t b, bool accumulate);

#define CLEF_FOUR(x, i) "+f"(x[i]), "+f"(x[i + 1]), "+f"(x[i + 2]), "+f"(x[i + 3])
#define CLEF_EIGHT(x, i) CLEF_FOUR(x, i), CLEF_FOUR(x, i + 4)

template <>
__device__ __forceinline__ void product_step<48>(float (&sum)[48], std::uint32_t a, std::uint32_t b, bool accumulate) {
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
__device__ __forceinline__ void product_step<64>(float (&sum)[64], std::uint32_t a, std::uint32_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_EIGHT(sum, 32),
        CLEF_EIGHT(sum, 40), CLEF_EIGHT(sum, 48), CLEF_EIGHT(sum, 56)
      : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void product_step<80>(float (&sum)[80], std::uint32_t a, std::uint32_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %82, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n160k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
      "}, %80, %81, p, 1, 1, 0, 0;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_EIGHT(sum, 32),
        CLEF_EIGHT(sum, 40), CLEF_EIGHT(sum, 48), CLEF_EIGHT(sum, 56), CLEF_EIGHT(sum, 64), CLEF_EIGHT(sum, 72)
      : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void product_step<96>(float (&sum)[96], std::uint32_t a, std::uint32_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
      "}, %96, %97, p, 1, 1, 0, 0;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_EIGHT(sum, 32),
        CLEF_EIGHT(sum, 40), CLEF_EIGHT(sum, 48), CLEF_EIGHT(sum, 56), CLEF_EIGHT(sum, 64), CLEF_EIGHT(sum, 72),
        CLEF_EIGHT(sum, 80), CLEF_EIGHT(sum, 88)
      : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void product_step<128>(float (&sum)[128], std::uint32_t a, std::uint32_t b,
                                                  bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, p, 1, 1, 0, 0;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_EIGHT(sum, 32),
        CLEF_EIGHT(sum, 40), CLEF_EIGHT(sum, 48), CLEF_EIGHT(sum, 56), CLEF_EIGHT(sum, 64), CLEF_EIGHT(sum, 72),
        CLEF_EIGHT(sum, 80), CLEF_EIGHT(sum, 88), CLEF_EIGHT(sum, 96), CLEF_EIGHT(sum, 104), CLEF_EIGHT(sum, 112),
        CLEF_EIGHT(sum, 120)
      : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(static_cast<int>(accumulate)));
}

// The same of E4M3: sum[64, 2*kCount] = or += a[64, 32] * b[2*kCount, 32]^T. A row of a tile has as many bytes, and so
// the descriptors are the same.
template <int kCount>
__device__ void low_product_step(float (&sum)[kCount], std::uint32_t a, std::uint32_t b, bool accumulate);

template <>
__device__ __forceinline__ void low_product_step<48>(float (&sum)[48], std::uint32_t a, std::uint32_t b,
                                                     bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
      "}, %48, %49, p, 1, 1;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_EIGHT(sum, 32),
        CLEF_EIGHT(sum, 40)
      : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void low_product_step<64>(float (&sum)[64], std::uint32_t a, std::uint32_t b,
                                                     bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, p, 1, 1;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_EIGHT(sum, 32),
        CLEF_EIGHT(sum, 40), CLEF_EIGHT(sum, 48), CLEF_EIGHT(sum, 56)
      : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void low_product_step<80>(float (&sum)[80], std::uint32_t a, std::uint32_t b,
                                                     bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %82, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n160k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
      "}, %80, %81, p, 1, 1;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_EIGHT(sum, 32),
        CLEF_EIGHT(sum, 40), CLEF_EIGHT(sum, 48), CLEF_EIGHT(sum, 56), CLEF_EIGHT(sum, 64), CLEF_EIGHT(sum, 72)
      : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void low_product_step<96>(float (&sum)[96], std::uint32_t a, std::uint32_t b,
                                                     bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
      "}, %96, %97, p, 1, 1;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_EIGHT(sum, 32),
        CLEF_EIGHT(sum, 40), CLEF_EIGHT(sum, 48), CLEF_EIGHT(sum, 56), CLEF_EIGHT(sum, 64), CLEF_EIGHT(sum, 72),
        CLEF_EIGHT(sum, 80), CLEF_EIGHT(sum, 88)
      : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(static_cast<int>(accumulate)));
}

template <>
__device__ __forceinline__ void low_product_step<128>(float (&sum)[128], std::uint32_t a, std::uint32_t b,
                                                      bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, p, 1, 1;\n}\n"
      : CLEF_EIGHT(sum, 0), CLEF_EIGHT(sum, 8), CLEF_EIGHT(sum, 16), CLEF_EIGHT(sum, 24), CLEF_EIGHT(sum, 32),
        CLEF_EIGHT(sum, 40), CLEF_EIGHT(sum, 48), CLEF_EIGHT(sum, 56), CLEF_EIGHT(sum, 64), CLEF_EIGHT(sum, 72),
        CLEF_EIGHT(sum, 80), CLEF_EIGHT(sum, 88), CLEF_EIGHT(sum, 96), CLEF_EIGHT(sum, 104), CLEF_EIGHT(sum, 112),
        CLEF_EIGHT(sum, 120)
      : "l"(whole_descriptor(a)), "l"(whole_descriptor(b)), "r"(static_cast<int>(accumulate)));
}

#undef CLEF_EIGHT
#undef CLEF_FOUR

}  // namespace clef::cuda
