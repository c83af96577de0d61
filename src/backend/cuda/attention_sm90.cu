// Hopper's attention kernels: their tensor maps, and which of them a batch gets.
#include <cuda.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>

#include "backend/cuda/attention.h"
#include "backend/cuda/attention_sm90.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/tensor_map.h"

namespace clef::cuda {

namespace {

using sm90::Config;
using sm90::kRows;
using sm90::Params;

// 80 keys: with 128 rows of queries, two stages of keys and two of values fill a multiprocessor's shared memory, and
// their products its registers.
template <int kWorkers>
using Causal = Config<kAttentionHeadDim, 80, kWorkers, true, false>;

// The vision tower's head size. There the softmax is as long as the products, so the workers take turns.
constexpr int kSegmentHeadDim = 72;
template <int kWorkers>
using Segment = Config<kSegmentHeadDim, 96, kWorkers, false, true>;

// [heads, tokens, columns] as boxes of 64 columns, `rows` tokens and `packed` heads.
struct MapShape {
  int columns, tokens, heads;
  std::int64_t stride, head_stride;
  int rows, packed;
};

bool make_map(CUtensorMap& map, const __half* data, const MapShape& shape) {
  const auto size = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t sizes[3] = {size(shape.columns), size(shape.tokens), size(shape.heads)};
  const cuuint64_t strides[2] = {size(shape.stride * 2), size(shape.head_stride * 2)};
  const cuuint32_t box[3] = {kChunk, static_cast<cuuint32_t>(shape.rows), static_cast<cuuint32_t>(shape.packed)};
  return encode_boxes(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, data, sizes, strides, box);
}

// Where every warpgroup's 64 rows can have a multiprocessor to themselves, they are quickest there.
bool fits_one_round(std::int64_t tokens, std::int64_t heads) { return tokens * heads <= multiprocessors() * kRows; }

// What the second-level cache keeps beside all else that passes through it.
constexpr std::int64_t kCachedBytes = 20 << 20;

template <typename C>
cudaError_t launch(Params& params, int tokens, cudaStream_t stream) {
  const auto kernel = sm90::attention_kernel<C>;
  constexpr int kBytes = static_cast<int>(sizeof(sm90::Shared<C>));
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  params.slots = static_cast<int>(tile_slots(tokens, params.sequences, C::kWorkers * kRows / params.packed));
  const int tiles = params.slots * (params.heads / params.packed);

  // The mean sequence decides for all: how many heads' keys and values are kept, and whether its tiles are long.
  const std::int64_t length = tokens / params.sequences;
  const int kv_heads = params.heads / params.group;
  const std::int64_t of_a_head = length * C::kHeadDim * 2 * 2;
  int together = kv_heads;
  while (together % 2 == 0 && of_a_head * together > kCachedBytes) together /= 2;
  params.pass = together * params.group;
  const bool long_tiles = together < kv_heads;
  return Launch(static_cast<unsigned>(long_tiles ? tiles : std::min(tiles, multiprocessors())), C::kThreads, kBytes,
                stream)
      .run(kernel, params);
}

}  // namespace

cudaError_t launch_attention_sm90(const AttentionArgs& args, int workers, cudaStream_t stream) {
  if (!valid(args) || workers < 0 || workers > 2 || multiprocessors() == 0) return cudaErrorInvalidValue;
  if (args.sequences == 0 || args.tokens == 0) return cudaSuccess;
  Params params{};
  params.y = args.y;
  params.y_stride = args.y_stride;
  params.cu = args.cu_seqlens;
  params.overflow = args.overflow;
  params.sequences = args.sequences;
  params.heads = args.q_heads;
  params.group = args.q_heads / args.kv_heads;
  params.token_shift = params.group % 4 == 0 ? 4 : params.group % 2 == 0 ? 5 : 6;
  params.packed = kRows >> params.token_shift;
  params.scale = kLog2E / 16.0F;
  params.prefix = args.prefix_tokens;
  const int d = kAttentionHeadDim, rows = kRows / params.packed;
  const int queries = args.tokens - args.sequences * args.prefix_tokens;
  if (queries == 0) return cudaSuccess;
  if (!make_map(params.q, args.q, {d, queries, args.q_heads, args.q_stride, d, rows, params.packed}) ||
      !make_map(params.gate, args.gate,
                {d, queries, args.q_heads, args.gate_stride, args.gate_head_stride, rows, params.packed}) ||
      !make_map(params.k, args.k, {d, args.tokens, args.kv_heads, args.kv_stride, d, Causal<1>::kKeys, 1}) ||
      !make_map(params.v, args.v, {d, args.tokens, args.kv_heads, args.kv_stride, d, Causal<1>::kKeys, 1})) {
    return cudaErrorInvalidValue;
  }
  if (workers == 0) workers = fits_one_round(args.tokens, args.q_heads) ? 1 : 2;
  return workers == 1 ? launch<Causal<1>>(params, args.tokens, stream) : launch<Causal<2>>(params, args.tokens, stream);
}

cudaError_t launch_segment_attention_sm90(const SegmentAttentionArgs& args, int workers, cudaStream_t stream) {
  constexpr int d = kSegmentHeadDim;
  static_assert(Segment<1>::kHeadsInRow && !Causal<1>::kHeadsInRow);
  if (!valid(args) || args.head_dim != d || workers < 0 || workers > 3 || multiprocessors() == 0) {
    return cudaErrorInvalidValue;
  }
  if (args.segments == 0 || args.tokens == 0) return cudaSuccess;
  Params params{};
  params.y = args.y;
  params.y_stride = args.y_stride;
  params.cu = args.cu_segments;
  params.overflow = args.overflow;
  params.sequences = args.segments;
  params.heads = args.heads;
  params.group = 1;
  params.token_shift = 6;
  params.packed = 1;
  params.scale = kLog2E / std::sqrt(static_cast<float>(d));
  if (!make_map(params.q, args.q, {d, args.tokens, args.heads, args.q_stride, d, kRows, 1}) ||
      !make_map(params.k, args.k, {d * args.heads, args.tokens, 1, args.kv_stride, d, Segment<1>::kKeys, 1}) ||
      !make_map(params.v, args.v, {d * args.heads, args.tokens, 1, args.kv_stride, d, Segment<1>::kKeys, 1})) {
    return cudaErrorInvalidValue;
  }
  if (workers == 0) workers = fits_one_round(args.tokens, args.heads) ? 1 : 3;
  if (workers == 1) return launch<Segment<1>>(params, args.tokens, stream);
  if (workers == 2) return launch<Segment<2>>(params, args.tokens, stream);
  return launch<Segment<3>>(params, args.tokens, stream);
}

}  // namespace clef::cuda
