// What stands around the matrix products: inputs split into planes, and what follows a product.
//
// An f32 input is two FP16 planes, high = fp16(s x) and low = fp16(s x - high), with s a power of two for each row;
// both are multiplied, and the sum is as good as f32's own. Levels of pixels are exact in one plane. Bound: memory.
#include "backend/cuda/lanes.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/low_part.cuh"
#include "backend/cuda/products.h"

namespace clef::cuda {

namespace {

constexpr int kThreads = 256;

__device__ void store_half4(__half* to, float a, float b, float c, float d) {
  const __half2 words[2] = {__floats2half2_rn(a, b), __floats2half2_rn(c, d)};
  *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(words);
}

// One block a row of the planes; what lies past the input's rows and columns is zero, and so is the second plane of a
// row that need not be precise. Columns are taken four at a time, which x's number and stride of them allow.
__global__ void __launch_bounds__(kThreads)
    split_rows(__half* values, std::int64_t depth, float* row_scale, Matrix<const float> x, const int* places) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t row = blockIdx.x;
  const bool is_precise = places == nullptr || (row < x.rows && places[row] >= 0);
  __half* to_high = values + row * 2 * depth;
  __half* to_low = to_high + depth;
  const int columns = row < x.rows ? static_cast<int>(x.cols) : 0;
  for (std::int64_t c = columns + threadIdx.x; c < depth; c += kThreads) to_high[c] = to_low[c] = __half(0.0F);
  if (columns == 0) {
    if (threadIdx.x == 0) row_scale[row] = 1.0F;
    return;
  }
  const float4* from = reinterpret_cast<const float4*>(x.row(row));
  float most = 0;
  for (int w = threadIdx.x; w < columns / 4; w += kThreads) {
    const float4 v = from[w];
    most = fmaxf(most, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
  }
  most = block_max<kThreads>(most);
  // The largest magnitude comes to lie in [2^13, 2^14). A row of zeros, or with infinity, stays as it is.
  int exponent = 0;
  if (most > 0 && most <= 3.4e38F) frexpf(most, &exponent);
  exponent = most > 0 && most <= 3.4e38F ? min(max(14 - exponent, -126), 126) : 0;
  const float scale = exp2f(static_cast<float>(exponent));
  if (threadIdx.x == 0) row_scale[row] = exp2f(static_cast<float>(-exponent));
  const auto low_of = [&](float value) { return is_precise ? value - __half2float(__float2half_rn(value)) : 0.0F; };
  for (int w = threadIdx.x; w < columns / 4; w += kThreads) {
    const float4 v = from[w];
    const float a = v.x * scale, b = v.y * scale, c = v.z * scale, d = v.w * scale;
    store_half4(to_high + 4 * w, a, b, c, d);
    store_half4(to_low + 4 * w, low_of(a), low_of(b), low_of(c), low_of(d));
  }
}

// One block a row of the remainders that a product left in f16, times kRemainderScale. A row's words of eight lie on 16
// bytes, for its columns and their stride are multiples of 8.
__global__ void __launch_bounds__(kThreads) make_low_rows(LowRows low, Matrix<const __half> remainder) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t row = blockIdx.x;
  uint2* const to = reinterpret_cast<uint2*>(low.values + row * low.stride);
  const int words = static_cast<int>(remainder.cols / 8);
  const uint4* const from = reinterpret_cast<const uint4*>(remainder.row(row));
  const auto unpack = [&](int word, float(&values)[8]) {
    const uint4 bits = from[word];
    const std::uint32_t halves[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&halves[i]));
      values[2 * i] = isfinite(both.x) ? both.x : 0.0F;
      values[2 * i + 1] = isfinite(both.y) ? both.y : 0.0F;
    }
  };
  float most = 0;
  for (int w = threadIdx.x; w < words; w += kThreads) {
    float values[8];
    unpack(w, values);
#pragma unroll
    for (int i = 0; i < 8; ++i) most = fmaxf(most, fabsf(values[i]));
  }
  const LowScale scale = low_scale(block_max<kThreads>(most));
  if (threadIdx.x == 0) low.scales[row] = scale.scale / kRemainderScale;
  for (int w = threadIdx.x; w < words; w += kThreads) {
    float values[8];
    unpack(w, values);
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] *= scale.factor;
    to[w] = make_uint2(low_bytes(values[0], values[1], values[2], values[3]),
                       low_bytes(values[4], values[5], values[6], values[7]));
  }
}

// 2 level - 255, an integer; 255 times the processor's normalised pixel. A thread kLevelsTogether of them.
constexpr int kLevelsTogether = 8;
__global__ void __launch_bounds__(kThreads) levels_to_half(__half* to, const std::uint8_t* levels, std::int64_t count) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kLevelsTogether;
  if (i >= count) return;
  const auto from = *reinterpret_cast<const Word<std::uint8_t, kLevelsTogether>*>(levels + i);
  Word<__half, kLevelsTogether> halves;
#pragma unroll
  for (int j = 0; j < kLevelsTogether; ++j) halves.of[j] = __int2half_rn(2 * static_cast<int>(from.of[j]) - 255);
  *reinterpret_cast<Word<__half, kLevelsTogether>*>(to + i) = halves;
}

__global__ void __launch_bounds__(kThreads) copy_rows(__half* to, Matrix<const __half> x, std::int64_t padded_rows) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= padded_rows * x.cols) return;
  const std::int64_t row = i / x.cols;
  to[i] = row < x.rows ? x.row(row)[i % x.cols] : __half(0.0F);
}

__device__ float gelu(float x, Follow kind) {
  if (kind == Follow::gelu_erf) return 0.5F * x * (1.0F + erff(x * 0.70710678118654752F));
  const float inner = 0.79788456080286536F * (x + 0.044715F * x * x * x);
  return 0.5F * x * (1.0F + tanhf(inner));
}

// y (type To) from the product (type From): times its row's scale, plus bias, then what follows.
template <typename From, typename To>
__global__ void __launch_bounds__(kThreads) finish(Matrix<To> y, const From* product, std::int64_t product_stride,
                                                   const float* row_scale, const float* bias, Follow kind) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= y.rows * y.cols) return;
  const std::int64_t row = i / y.cols, col = i % y.cols;
  const float scale = row_scale == nullptr ? 1.0F : row_scale[row];
  const From* from = product + row * product_stride;
  float value = to_float(from[col]) * scale;
  To* to = y.row(row) + col;
  if (kind == Follow::add) value += to_float(*to);  // before the bias, as cuBLAS's epilogue does
  if (bias != nullptr) value += bias[col];
  switch (kind) {
    case Follow::store:
    case Follow::add:
      break;
    case Follow::swiglu:  // the gate's columns, then the other's
      value = silu(value) * (to_float(from[y.cols + col]) * scale);
      break;
    default:
      value = gelu(value, kind);
  }
  *to = from_float<To>(value);
}

}  // namespace

void split(const Planes& to, const Tensor& x, const int* places, Context& context) {
  CHECK(x.cols % 4 == 0 && x.stride % 4 == 0);
  context.check(Launch(static_cast<unsigned>(to.rows), kThreads, 0, context.stream)
                    .run(split_rows, to.values, to.depth, to.row_scale, matrix<const float>(x), places),
                "split_rows");
}

void make_low(const LowOut& low, const Tensor& remainder, const PreciseRows& precise, Context& context) {
  CHECK(remainder.cols % 8 == 0 && remainder.stride % 8 == 0);
  context.check(Launch(static_cast<unsigned>(remainder.rows), kThreads, 0, context.stream)
                    .run(make_low_rows, low_rows(low, precise), matrix<const __half>(remainder)),
                "make_low_rows");
}

void widen_levels(__half* to, const Tensor& levels, Context& context) {
  const std::int64_t count = levels.rows * levels.cols;
  CHECK(levels.stride == levels.cols && lies_on_words(levels, kLevelsTogether));
  context.check(Launch(blocks(count, kThreads * kLevelsTogether), kThreads, 0, context.stream)
                    .run(levels_to_half, to, matrix<const std::uint8_t>(levels).data, count),
                "levels_to_half");
}

void copy_padded(__half* to, const Tensor& x, std::int64_t padded_rows, Context& context) {
  context.check(Launch(blocks(padded_rows * x.cols, kThreads), kThreads, 0, context.stream)
                    .run(copy_rows, to, matrix<const __half>(x), padded_rows),
                "copy_rows");
}

void follow_f32(const Tensor& y, const float* product, std::int64_t product_stride, const float* row_scale,
                const float* bias, Follow kind, Context& context) {
  const unsigned grid = blocks(y.rows * y.cols, kThreads);
  if (y.dtype == DType::f16) {
    context.check(Launch(grid, kThreads, 0, context.stream)
                      .run(finish<float, __half>, matrix<__half>(y), product, product_stride, row_scale, bias, kind),
                  "finish");
  } else {
    context.check(Launch(grid, kThreads, 0, context.stream)
                      .run(finish<float, float>, matrix<float>(y), product, product_stride, row_scale, bias, kind),
                  "finish");
  }
}

void follow_f16(const Tensor& y, const __half* product, std::int64_t product_stride, const float* bias, Follow kind,
                Context& context) {
  context.check(Launch(blocks(y.rows * y.cols, kThreads), kThreads, 0, context.stream)
                    .run(finish<__half, __half>, matrix<__half>(y), product, product_stride, nullptr, bias, kind),
                "finish");
}

void follow_in_place(const Tensor& y, Follow gelu, Context& context) {
  const unsigned grid = blocks(y.rows * y.cols, kThreads);
  by_type(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Matrix<T> at = matrix<T>(y);
    context.check(
        Launch(grid, kThreads, 0, context.stream).run(finish<T, T>, at, at.data, at.stride, nullptr, nullptr, gelu),
        "gelu");
  });
}

}  // namespace clef::cuda
