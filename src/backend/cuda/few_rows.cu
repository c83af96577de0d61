// The product of few f32 rows (questions and options) with a weight.
// Arithmetic: f32; a lane takes eight features of every 256, ascending, then a butterfly over the warp. Both schedules
//             give the same bits.
// Schedule:   up to eight rows: a block takes them into shared memory and a warp a column at a time, in little code,
//             which is fetched once for each multiprocessor and used once. More: a block takes eight rows, whose
//             features come in chunks, and a warp up to eight columns, so that what it reads of the rows serves all.
// Bound:      few rows: reading the weights, which starts before the kernel ahead has ended; many: f32 arithmetic.
#include "backend/cuda/few_rows.h"

#include <algorithm>

#include "backend/cuda/lanes.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/tile.cuh"

namespace clef::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kMostRows = 8;      // of a block
constexpr int kWord = 8;          // features: halves in 16 bytes
constexpr int kChunkWords = 128;  // of a row: a thread copies a half of one, four floats
constexpr int kLaneWords = kChunkWords / kWarp;
constexpr int kHalfStride = kChunkWords + 4;  // neighbours that copy either half of a word meet other banks
constexpr unsigned kFewestBlocks = 64;        // of many rows: fewer leave multiprocessors without work
static_assert(2 * kChunkWords == kThreads);

// How the kernel of many rows is made: columns a warp, words of each column that a lane has on their way, chunks in
// shared memory, blocks a multiprocessor.
template <int columns, int ahead, int stages, int blocks>
struct Shape {
  static constexpr int kColumns = columns, kAhead = ahead, kStages = stages, kBlocks = blocks;
  static constexpr int kUnrolledWords = std::min(kAhead, kLaneWords);
  static constexpr int kChunkBytes = kMostRows * 2 * kHalfStride * static_cast<int>(sizeof(float4));
  static constexpr int kUnrolledChunks = std::max(kAhead / kLaneWords, 1);  // so that a word's register is known
  // The sums of a warp are shared out among its lanes, each of which ends so many, or has one together with others.
  static constexpr int kSums = kMostRows * kColumns;
  static constexpr int kEndedByLane = std::max(kSums / kWarp, 1), kLanesOfSum = std::max(kWarp / kSums, 1);
};

__device__ float follow(float value, Follow kind) {
  if (kind == Follow::gelu_erf) return 0.5F * value * (1.0F + erff(value * 0.70710678118654752F));
  if (kind == Follow::gelu_tanh) {
    const float inner = 0.79788456080286536F * (value + 0.044715F * value * value * value);
    return 0.5F * value * (1.0F + tanhf(inner));
  }
  return value;
}

__device__ float4 four(unsigned low, unsigned high) {
  const float2 a = unpack_halves(low), b = unpack_halves(high);
  return make_float4(a.x, a.y, b.x, b.y);
}

// Each of kCount values summed over the warp, added as warp_sum() adds; but lanes halve the values among them as long
// as there are several: value i ends in values[i % kEndedByLane] of lane i / kEndedByLane * kLanesOfSum and the next.
template <int kCount>
__device__ void share_out_sums(float (&values)[kCount], int lane) {
  int count = kCount;
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const bool upper = (lane & offset) != 0;
    if (count == 1) {
      values[0] += __shfl_xor_sync(kAllLanes, values[0], offset);
      continue;
    }
    count /= 2;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      if (i >= count) break;
      const float kept = upper ? values[count + i] : values[i], sent = upper ? values[i] : values[count + i];
      values[i] = kept + __shfl_xor_sync(kAllLanes, sent, offset);
    }
  }
}

__device__ void prefetch_to_cache(const void* global) { asm volatile("prefetch.global.L2 [%0];" ::"l"(global)); }

__global__ void __launch_bounds__(kThreads) few_rows(const FewRowsArgs args) {
  let_next_start();
  extern __shared__ float4 memory[];
  const int words = static_cast<int>(args.depth / kWord), rows = static_cast<int>(args.rows);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp;
  // Weights are written by no kernel.
  if (first_column < args.columns) {
    const uint4* w = reinterpret_cast<const uint4*>(args.w + first_column * args.depth);
    for (int word = lane; word < words; word += kWarp) prefetch_to_cache(w + word);
  }
  wait_for_inputs();
  // Words of a row lie as [half of the word][word], so that neighbouring lanes read neighbouring memory.
  for (int i = threadIdx.x; i < rows * words * 2; i += kThreads) {
    const int row = i / (words * 2), part = i % (words * 2);
    const float4 value = *reinterpret_cast<const float4*>(args.x + row * args.x_stride + part * 4);
    memory[(row * 2 + part % 2) * words + part / 2] = value;
  }
  __syncthreads();
  for (std::int64_t column = first_column; column < args.columns;
       column += static_cast<std::int64_t>(gridDim.x) * kWarps) {
    const uint4* w = reinterpret_cast<const uint4*>(args.w + column * args.depth);
    float sums[kMostRows] = {};
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
      for (int r = 0; r < kMostRows; ++r) {
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
    for (int r = 0; r < kMostRows; ++r) {
      if (r >= rows) break;
      float value = warp_sum(sums[r]) * args.alpha;
      if (lane != 0) continue;
      float* y = args.y + r * args.y_stride + column;
      if (args.follow == Follow::add) value += *y;
      if (args.bias != nullptr) value += args.bias[column];
      *y = follow(value, args.follow);
    }
  }
}

template <typename Shape>
__global__ void __launch_bounds__(kThreads, Shape::kBlocks) many_rows(const FewRowsArgs args) {
  constexpr int kColumns = Shape::kColumns, kAhead = Shape::kAhead, kStages = Shape::kStages;
  constexpr int kUnrolledChunks = Shape::kUnrolledChunks;
  let_next_start();
  extern __shared__ float4
      memory[];  // [kStages][kMostRows][half of a word][kHalfStride], so that lanes read neighbours
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, words = static_cast<int>(args.depth / kWord);
  const int chunks = (words + kChunkWords - 1) / kChunkWords;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kMostRows;
  const std::int64_t first_column = (static_cast<std::int64_t>(blockIdx.x) * kWarps + warp) * kColumns;

  // Past the last row or column its numbers stand in, and what comes of them is not stored. Weights and bias are
  // written by no kernel.
  const std::int64_t last_column = args.columns - 1, present_column = min(first_column, last_column);
  const uint4* w = reinterpret_cast<const uint4*>(args.w + present_column * args.depth);
  int column_words[kColumns];
  uint4 ahead[kAhead][kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    column_words[c] = static_cast<int>(min(first_column + c, last_column) - present_column) * words;
  }
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (lane + i * kWarp < words) ahead[i][c] = __ldg(w + column_words[c] + lane + i * kWarp);
    }
  }
  float bias[Shape::kEndedByLane] = {}, before[Shape::kEndedByLane] = {};
  const auto each_ended = [&](auto take) {
#pragma unroll
    for (int i = 0; i < Shape::kEndedByLane; ++i) {
      const int sum = lane / Shape::kLanesOfSum * Shape::kEndedByLane + i;
      const std::int64_t row = first_row + sum / kColumns, column = first_column + sum % kColumns;
      if (lane % Shape::kLanesOfSum == 0 && row < args.rows && column < args.columns) take(i, row, column);
    }
  };
  if (args.bias != nullptr) {
    each_ended([&](int i, std::int64_t, std::int64_t column) { bias[i] = args.bias[column]; });
  }

  wait_for_inputs();
  const std::uint32_t shared = shared_address(memory + threadIdx.x % 2 * kHalfStride + threadIdx.x / 2);
  const auto fetch = [&](int chunk) {
    const int part = chunk * kThreads + static_cast<int>(threadIdx.x);
    if (part < 2 * words) {
#pragma unroll
      for (int r = 0; r < kMostRows; ++r) {
        copy_async_16(shared + chunk % kStages * Shape::kChunkBytes + r * Shape::kChunkBytes / kMostRows,
                      args.x + min(first_row + r, args.rows - 1) * args.x_stride + part * 4, true);
      }
    }
    copy_async_commit();
  };
#pragma unroll
  for (int stage = 0; stage < kStages; ++stage) fetch(stage);
  if (args.follow == Follow::add) {
    each_ended([&](int i, std::int64_t row, std::int64_t column) { before[i] = args.y[row * args.y_stride + column]; });
  }

  float sums[kMostRows * kColumns] = {};
  const auto take_word = [&](int chunk, int i, int place) {
    const int in_chunk = lane + i * kWarp, next = chunk * kChunkWords + in_chunk + kAhead * kWarp;
    const float4* x = memory + chunk % kStages * (kMostRows * 2 * kHalfStride) + in_chunk;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float4 weights[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const uint4 bits = ahead[place][c];
        weights[c] = half == 0 ? four(bits.x, bits.y) : four(bits.z, bits.w);
        if (half == 1 && next < words) ahead[place][c] = __ldg(w + column_words[c] + next);
      }
#pragma unroll
      for (int r = 0; r < kMostRows; ++r) {
        const float4 a = x[(r * 2 + half) * kHalfStride];
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          float& sum = sums[r * kColumns + c];
          sum = fmaf(a.x, weights[c].x, sum);
          sum = fmaf(a.y, weights[c].y, sum);
          sum = fmaf(a.z, weights[c].z, sum);
          sum = fmaf(a.w, weights[c].w, sum);
        }
      }
    }
  };
  for (int first = 0; first < chunks; first += kUnrolledChunks) {
#pragma unroll
    for (int u = 0; u < kUnrolledChunks; ++u) {
      const int chunk = first + u, words_left = words - chunk * kChunkWords;
      if (words_left <= 0) break;
      copy_async_wait<kStages - 1>();
      __syncthreads();
      if (words_left >= kChunkWords) {
#pragma unroll Shape::kUnrolledWords
        for (int i = 0; i < kLaneWords; ++i) take_word(chunk, i, (u * kLaneWords + i) % kAhead);
      } else {
#pragma unroll Shape::kUnrolledWords
        for (int i = 0; i < kLaneWords; ++i) {
          if (lane + i * kWarp < words_left) take_word(chunk, i, (u * kLaneWords + i) % kAhead);
        }
      }
      if (chunk + kStages < chunks) {
        __syncthreads();
        fetch(chunk + kStages);
      } else {
        copy_async_commit();  // of nothing: the wait counts a group a chunk
      }
    }
  }

  share_out_sums(sums, lane);
  each_ended([&](int i, std::int64_t row, std::int64_t column) {
    float value = sums[i] * args.alpha;
    if (args.follow == Follow::add) value += before[i];
    if (args.bias != nullptr) value += bias[i];
    args.y[row * args.y_stride + column] = follow(value, args.follow);
  });
}

template <typename Shape>
cudaError_t launch(const FewRowsArgs& args, cudaStream_t stream) {
  const std::int64_t chunks = (args.depth + kChunkWords * kWord - 1) / (kChunkWords * kWord);
  const int bytes = static_cast<int>(std::min<std::int64_t>(chunks, Shape::kStages)) * Shape::kChunkBytes;
  if (const cudaError_t error =
          cudaFuncSetAttribute(many_rows<Shape>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      error != cudaSuccess) {
    return error;
  }
  const dim3 grid(blocks(args.columns, kWarps * Shape::kColumns), blocks(args.rows, kMostRows));
  return Launch(grid, kThreads, static_cast<std::size_t>(bytes), stream).run(many_rows<Shape>, args);
}

// As many columns a warp as leave enough blocks. With eight columns a multiprocessor's registers hold one block; all
// others leave room for a second one, which may be the next kernel's.
cudaError_t launch_many(const FewRowsArgs& args, cudaStream_t stream) {
  const auto num_blocks = [&](int columns) {
    return blocks(args.columns, kWarps * columns) * blocks(args.rows, kMostRows);
  };
  if (num_blocks(8) >= kFewestBlocks) return launch<Shape<8, 1, 3, 1>>(args, stream);
  if (num_blocks(4) >= kFewestBlocks) return launch<Shape<4, 2, 3, 2>>(args, stream);
  if (num_blocks(2) >= kFewestBlocks) return launch<Shape<2, 4, 3, 2>>(args, stream);
  return launch<Shape<1, 8, 3, 2>>(args, stream);
}

cudaError_t launch_few(const FewRowsArgs& args, cudaStream_t stream) {
  constexpr unsigned kMostBlocks = 264;
  const auto bytes = static_cast<int>(static_cast<std::size_t>(kMostRows * args.depth) * sizeof(float));
  if (const cudaError_t error = cudaFuncSetAttribute(few_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      error != cudaSuccess) {
    return error;
  }
  const unsigned column_blocks = std::min(blocks(args.columns, kWarps), kMostBlocks);
  return Launch(column_blocks, kThreads, static_cast<std::size_t>(bytes), stream).run(few_rows, args);
}

}  // namespace

cudaError_t launch_few_rows(const FewRowsArgs& args, cudaStream_t stream) {
  if (args.rows == 0 || args.columns == 0) return cudaSuccess;
  if (args.depth % kWord != 0 || args.x_stride % 4 != 0 || args.depth > kMostFewRowsDepth ||
      args.follow == Follow::swiglu) {
    return cudaErrorInvalidValue;
  }
  return args.rows <= kMostRows ? launch_few(args, stream) : launch_many(args, stream);
}

}  // namespace clef::cuda
