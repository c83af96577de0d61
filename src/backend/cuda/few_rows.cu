// The product of few f32 rows (questions and options) with a weight.
// Arithmetic: f32; a lane takes eight features of every 256, ascending, then a butterfly over the warp.
// Schedule:   a block takes eight rows into shared memory and some columns, a warp a column at a time.
// Bound:      reading the weights.
#include "backend/cuda/few_rows.h"

#include "backend/cuda/lanes.cuh"
#include "backend/cuda/launch.h"

namespace clef::cuda {
namespace {

constexpr int kRows = 8;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kWord = 8;  // halves in 16 bytes

__device__ float follow(float value, Follow kind) {
  if (kind == Follow::gelu_erf) return 0.5F * value * (1.0F + erff(value * 0.70710678118654752F));
  if (kind == Follow::gelu_tanh) {
    const float inner = 0.79788456080286536F * (value + 0.044715F * value * value * value);
    return 0.5F * value * (1.0F + tanhf(inner));
  }
  return value;
}

__global__ void __launch_bounds__(kThreads) few_rows(const FewRowsArgs args) {
  let_next_start();
  wait_for_inputs();
  extern __shared__ float4 memory[];
  const int words = static_cast<int>(args.depth / kWord);
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kRows;
  const int rows = static_cast<int>(min(static_cast<std::int64_t>(kRows), args.rows - first_row));
  // Words of a row lie as [half of the word][word], so that neighbouring lanes read neighbouring memory.
  for (int i = threadIdx.x; i < rows * words * 2; i += kThreads) {
    const int row = i / (words * 2), part = i % (words * 2);
    const float4 value = *reinterpret_cast<const float4*>(args.x + (first_row + row) * args.x_stride + part * 4);
    memory[(row * 2 + part % 2) * words + part / 2] = value;
  }
  __syncthreads();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  for (std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp; column < args.columns;
       column += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const uint4* w = reinterpret_cast<const uint4*>(args.w + column * args.depth);
    float sums[kRows] = {};
    for (int word = lane; word < words; word += kWarp) {
      const uint4 bits = w[word];
      float values[kWord];
      const unsigned parts[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&parts[p]));
        values[2 * p] = pair.x;
        values[2 * p + 1] = pair.y;
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r >= rows) break;
        const float4 a = memory[r * 2 * words + word], b = memory[(r * 2 + 1) * words + word];
        float sum = sums[r];
        sum = fmaf(a.x, values[0], sum);
        sum = fmaf(a.y, values[1], sum);
        sum = fmaf(a.z, values[2], sum);
        sum = fmaf(a.w, values[3], sum);
        sum = fmaf(b.x, values[4], sum);
        sum = fmaf(b.y, values[5], sum);
        sum = fmaf(b.z, values[6], sum);
        sums[r] = fmaf(b.w, values[7], sum);
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= rows) break;
      float value = warp_sum(sums[r]) * args.alpha;
      if (lane != 0) continue;
      float* y = args.y + (first_row + r) * args.y_stride + column;
      if (args.follow == Follow::add) value += *y;
      if (args.bias != nullptr) value += args.bias[column];
      *y = follow(value, args.follow);
    }
  }
}

}  // namespace

cudaError_t launch_few_rows(const FewRowsArgs& args, cudaStream_t stream) {
  if (args.rows == 0 || args.columns == 0) return cudaSuccess;
  if (args.depth % kWord != 0 || args.x_stride % 4 != 0 || args.depth > kMostFewRowsDepth ||
      args.follow == Follow::swiglu) {
    return cudaErrorInvalidValue;
  }
  const auto bytes = static_cast<int>(static_cast<std::size_t>(kRows * args.depth) * sizeof(float));
  if (const cudaError_t error = cudaFuncSetAttribute(few_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      error != cudaSuccess) {
    return error;
  }
  const unsigned column_blocks = blocks(args.columns, kWarps);
  const dim3 grid(column_blocks < 264U ? column_blocks : 264U, blocks(args.rows, kRows));
  return Launch(grid, kThreads, static_cast<std::size_t>(bytes), stream).run(few_rows, args);
}

}  // namespace clef::cuda
