// Words that every kernel uses: elements of either activation type as float, and sums over warps and blocks in one
// order.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "base/tensor.h"

namespace clef::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
// Past the range of FP16 this gives infinity, which is how a record says that it wants f32 (model/network.h).
template <typename T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

// Butterfly: every lane gets the sum, added in the same order.
__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
  return x;
}
__device__ inline float warp_max(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, offset));
  return x;
}

// The sum over a block of kThreads, warps in index order; every thread gets it. Two calls may follow each other.
template <int kThreads>
__device__ inline float block_sum(float x) {
  __shared__ float sums[kThreads / kWarp];
  x = warp_sum(x);
  __syncthreads();  // the call before has been read
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = x;
  __syncthreads();
  float total = 0;
#pragma unroll
  for (int w = 0; w < kThreads / kWarp; ++w) total += sums[w];
  return total;
}
template <int kThreads>
__device__ inline float block_max(float x) {
  __shared__ float maxima[kThreads / kWarp];
  x = warp_max(x);
  __syncthreads();
  if (threadIdx.x % kWarp == 0) maxima[threadIdx.x / kWarp] = x;
  __syncthreads();
  float most = maxima[0];
#pragma unroll
  for (int w = 1; w < kThreads / kWarp; ++w) most = fmaxf(most, maxima[w]);
  return most;
}

__device__ inline float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
// Zero, not NaN, for -infinity.
__device__ inline float silu(float x) { return x / (1.0F + expf(-x)); }

// Neighbouring elements that are read and written together.
template <typename T, int kCount>
struct alignas(kCount * sizeof(T)) Word {
  T of[kCount];
};

// A tensor as kernels take it.
template <typename T>
struct Matrix {
  T* data;
  std::int64_t rows, cols, stride;
  __device__ T* row(std::int64_t r) const { return data + r * stride; }
};
template <typename T>
Matrix<T> matrix(const Tensor& t) {
  return {reinterpret_cast<T*>(t.address()), t.rows, t.cols, t.stride};
}

// The same in words, of whatever its rows are made of; or none.
template <typename Word>
Matrix<Word> words(const Tensor& t) {
  const auto of_a_word = static_cast<std::int64_t>(sizeof(Word) / size_of(t.dtype));
  return {t ? reinterpret_cast<Word*>(t.address()) : nullptr, t.rows, t.cols / of_a_word, t.stride / of_a_word};
}

// Which of `count` segments row `index` lies in: the last whose start is not past it. starts[0] = 0.
__device__ inline int segment_of(const int* starts, int count, std::int64_t index) {
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (starts[middle] <= index) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Segments cut into tiles of `size` rows, in a grid whose size needs only the number of rows and of segments: tile
// start(s) + i is the i-th of segment s, and the tiles between a segment's last and the next's first have no rows.
struct Tile {
  int segment;
  std::int64_t first;  // row of all
  std::int64_t end;    // of the segment
};
__device__ inline bool find_tile(const int* starts, int segments, int size, std::int64_t index, Tile& tile) {
  int low = 0, high = segments - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (starts[middle] / size + middle <= index) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  tile.segment = low;
  tile.first = starts[low] + (index - (starts[low] / size + low)) * size;
  tile.end = starts[low + 1];
  return tile.first < tile.end;
}
inline std::int64_t most_tiles(std::int64_t rows, std::int64_t segments, std::int64_t size) {
  return rows / size + segments;
}

// Calls launch with a value of the activation type.
template <typename Launch>
void by_type(DType dtype, Launch launch) {
  if (dtype == DType::f16) {
    launch(__half{});
  } else {
    launch(float{});
  }
}

// Whether rows, and the matrix, are of whole words of so many bytes.
inline bool lies_on_words(const Tensor& t, std::int64_t bytes) {
  const auto size = static_cast<std::int64_t>(size_of(t.dtype));
  return t.cols * size % bytes == 0 && t.stride * size % bytes == 0 && t.offset * size % bytes == 0;
}

// A grid's second dimension ends at 65,535: rows beyond are taken in further rounds, launch(first, rows) each.
template <typename Launch>
void by_grid_rows(std::int64_t rows, Launch launch) {
  constexpr std::int64_t kMostGridRows = 65535;
  for (std::int64_t first = 0; first < rows; first += kMostGridRows) {
    launch(first, static_cast<unsigned>(rows - first < kMostGridRows ? rows - first : kMostGridRows));
  }
}

inline unsigned blocks(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

}  // namespace clef::cuda
