// Attention with f32 operands: of the head, and of records whose activations leave the range of FP16.
// Arithmetic: f32. Keys in blocks of 32 from the segment's start, a lane a key; the softmax is carried from block to
//             block; then each lane sums its features over the block's keys in ascending order. Without a mask the keys
//             of a segment are taken in parts, whose number and size depend on the segment's number of keys alone, and
//             the parts' results are merged in ascending order.
// Schedule:   a block of 8 warps takes 8 queries of a segment, a warp each, and one part of the keys; a second kernel
//             merges: a few questions or options read the keys of a long record on all multiprocessors.
// Bound:      shared memory; it serves few queries.
#include "backend/cuda/attention_f32.h"

#include <algorithm>

#include "backend/cuda/lanes.cuh"

namespace clef::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kKeys = kWarp;
constexpr int kMostHeldFeatures = kMostAttentionF32HeadDim / kWarp;
constexpr std::int64_t kFewestPartKeys = 64;
constexpr std::int64_t kTilesAtOnce = 64;  // whose parts are in memory together

// The keys of a part, where a segment has so many: at most kAttentionF32Parts parts.
__device__ std::int64_t part_keys(std::int64_t num_keys) {
  std::int64_t keys = kFewestPartKeys;
  while (keys * kAttentionF32Parts < num_keys) keys *= 2;
  return keys;
}

// Where a query's result of one part lies: its greatest logit, the sum of its weights, and its features.
__device__ float* partial_of(const AttentionF32Args& args, std::int64_t slot, int head, int part) {
  return args.partials + ((slot * args.heads + head) * kAttentionF32Parts + part) * (args.head_dim + 2);
}

__global__ void __launch_bounds__(kThreads) attention(const AttentionF32Args args, std::int64_t first_tile) {
  extern __shared__ float memory[];
  const int d = args.head_dim, key_stride = d + 1;  // odd: lanes reading one feature of 32 keys meet 32 banks
  float* queries = memory;                          // [kWarps, d], scaled
  float* keys = queries + kWarps * d;               // [kKeys, key_stride]
  float* values = keys + kKeys * key_stride;        // [kKeys, d]
  Tile tile;
  if (!find_tile(args.cu_queries, args.segments, kWarps, first_tile + blockIdx.x, tile)) return;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int head = blockIdx.y, kv_head = head / args.group;
  const std::int64_t query = tile.first + warp;
  const bool has_query = query < tile.end;
  const std::int64_t first_key = args.cu_keys[tile.segment], num_keys = args.cu_keys[tile.segment + 1] - first_key;
  const std::int64_t place = query - args.cu_queries[tile.segment];  // of the query in its sequence
  // What the last query of the tile sees.
  const std::int64_t last_place = min(tile.first + kWarps, tile.end) - 1 - args.cu_queries[tile.segment];
  const int part = static_cast<int>(blockIdx.z);
  const std::int64_t of_part = args.partials == nullptr ? num_keys : part_keys(num_keys), begin = part * of_part;
  const std::int64_t end = min(args.causal ? min(last_place + 1, num_keys) : num_keys, begin + of_part);
  if (part > 0 && begin >= end) return;
  const float scale = 1.0F / sqrtf(static_cast<float>(d));
  if (has_query) {
    for (int c = lane; c < d; c += kWarp) {
      queries[warp * d + c] = args.q[query * args.q_stride + head * d + c] * scale;
    }
  }
  float most = -INFINITY, total = 0;
  float sums[kMostHeldFeatures] = {};
  for (std::int64_t start = begin; start < end; start += kKeys) {
    __syncthreads();
    for (int i = threadIdx.x; i < kKeys * d; i += kThreads) {
      const int row = i / d, c = i % d;
      const bool exists = start + row < num_keys;
      const std::int64_t at = (first_key + start + row) * args.kv_stride + kv_head * d + c;
      keys[row * key_stride + c] = exists ? args.k[at] : 0.0F;
      values[row * d + c] = exists ? args.v[at] : 0.0F;
    }
    __syncthreads();
    if (!has_query) continue;
    float logit = 0;
    for (int c = 0; c < d; ++c) logit = fmaf(queries[warp * d + c], keys[lane * key_stride + c], logit);
    const std::int64_t key = start + lane;
    const bool seen = key < num_keys && (!args.causal || key <= place);
    if (!seen) logit = -INFINITY;
    const float larger = fmaxf(most, warp_max(logit));
    if (larger == -INFINITY) continue;  // nothing of this block is seen: only past a causal query's own block
    const float keep = expf(most - larger);
    const float weight = seen ? expf(logit - larger) : 0.0F;
    most = larger;
    total = fmaf(total, keep, warp_sum(weight));
#pragma unroll
    for (int i = 0; i < kMostHeldFeatures; ++i) sums[i] *= keep;
    for (int k = 0; k < kKeys; ++k) {
      const float p = __shfl_sync(kAllLanes, weight, k);
      if (p == 0) continue;  // a value that is not seen is not touched, whatever it holds
#pragma unroll
      for (int i = 0; i < kMostHeldFeatures; ++i) {
        const int c = lane + i * kWarp;
        if (c < d) sums[i] = fmaf(p, values[k * d + c], sums[i]);
      }
    }
  }
  if (!has_query) return;
  if (args.partials != nullptr) {
    float* to = partial_of(args, static_cast<std::int64_t>(blockIdx.x) * kWarps + warp, head, part);
    if (lane == 0) {
      to[0] = most;
      to[1] = total;
    }
#pragma unroll
    for (int i = 0; i < kMostHeldFeatures; ++i) {
      const int c = lane + i * kWarp;
      if (c < d) to[2 + c] = sums[i];
    }
    return;
  }
  float* to = args.y + query * args.y_stride + head * d;
#pragma unroll
  for (int i = 0; i < kMostHeldFeatures; ++i) {
    const int c = lane + i * kWarp;
    if (c >= d) continue;
    float value = sums[i] / total;
    if (args.gate != nullptr) value *= sigmoid(args.gate[query * args.gate_stride + head * 2 * d + d + c]);
    to[c] = value;
  }
}

// A warp a query and head. The greatest logit of all is found first, so each part is scaled once.
__global__ void __launch_bounds__(kThreads) merge(const AttentionF32Args args, std::int64_t first_tile) {
  Tile tile;
  if (!find_tile(args.cu_queries, args.segments, kWarps, first_tile + blockIdx.x, tile)) return;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, head = blockIdx.y, d = args.head_dim;
  const std::int64_t query = tile.first + warp;
  if (query >= tile.end) return;
  const std::int64_t num_keys = args.cu_keys[tile.segment + 1] - args.cu_keys[tile.segment];
  const std::int64_t of_part = part_keys(num_keys);
  const int parts = static_cast<int>(max((num_keys + of_part - 1) / of_part, std::int64_t{1}));
  const std::int64_t slot = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp;
  float most = -INFINITY;
  for (int p = lane; p < parts; p += kWarp) most = fmaxf(most, partial_of(args, slot, head, p)[0]);
  most = warp_max(most);
  float total = 0;
  float sums[kMostHeldFeatures] = {};
  for (int p = 0; p < parts; ++p) {
    const float* from = partial_of(args, slot, head, p);
    const float keep = expf(from[0] - most);
    total = fmaf(from[1], keep, total);
#pragma unroll
    for (int i = 0; i < kMostHeldFeatures; ++i) {
      const int c = lane + i * kWarp;
      if (c < d) sums[i] = fmaf(from[2 + c], keep, sums[i]);
    }
  }
  float* to = args.y + query * args.y_stride + head * d;
#pragma unroll
  for (int i = 0; i < kMostHeldFeatures; ++i) {
    const int c = lane + i * kWarp;
    if (c < d) to[c] = sums[i] / total;
  }
}

}  // namespace

std::int64_t attention_f32_partials(const AttentionF32Args& args) {
  if (args.causal || args.gate != nullptr) return 0;
  const std::int64_t tiles = most_tiles(args.queries, args.segments, kWarps);
  return std::min(tiles, kTilesAtOnce) * kWarps * args.heads * kAttentionF32Parts * (args.head_dim + 2);
}

cudaError_t launch_attention_f32(const AttentionF32Args& args, cudaStream_t stream) {
  if (args.queries == 0) return cudaSuccess;
  if ((attention_f32_partials(args) > 0) != (args.partials != nullptr)) return cudaErrorInvalidValue;
  const auto bytes = static_cast<int>(
      sizeof(float) * static_cast<std::size_t>(kWarps * args.head_dim + kKeys * (2 * args.head_dim + 1)));
  if (const cudaError_t error = cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      error != cudaSuccess) {
    return error;
  }
  const std::int64_t tiles = most_tiles(args.queries, args.segments, kWarps);
  const auto heads = static_cast<unsigned>(args.heads);
  if (args.partials == nullptr) {
    attention<<<dim3(static_cast<unsigned>(tiles), heads), kThreads, static_cast<std::size_t>(bytes), stream>>>(args,
                                                                                                                0);
    return cudaGetLastError();
  }
  // The longest segment decides how many parts there can be; blocks of parts that a segment does not have end at once.
  const std::int64_t parts =
      std::min<std::int64_t>(kAttentionF32Parts, (args.keys + kFewestPartKeys - 1) / kFewestPartKeys);
  for (std::int64_t first = 0; first < tiles; first += kTilesAtOnce) {
    const auto count = static_cast<unsigned>(std::min(kTilesAtOnce, tiles - first));
    attention<<<dim3(count, heads, static_cast<unsigned>(std::max(parts, std::int64_t{1}))), kThreads,
                static_cast<std::size_t>(bytes), stream>>>(args, first);
    merge<<<dim3(count, heads), kThreads, 0, stream>>>(args, first);
  }
  return cudaGetLastError();
}

}  // namespace clef::cuda
