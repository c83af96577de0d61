// Attention with f32 operands: of the head, and of records whose activations leave the range of FP16.
// Arithmetic: f32. Keys in blocks of 32 from the segment's start, a lane a key; the softmax is carried from block to
//             block; then each lane sums its features over the block's keys in ascending order.
// Schedule:   a block of 8 warps takes 8 queries of a segment, a warp each, and shares the keys' tiles.
// Bound:      shared memory; it serves few queries.
#include "backend/cuda/attention_f32.h"
#include "backend/cuda/lanes.cuh"

namespace clef::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kKeys = kWarp;
constexpr int kMostHeldFeatures = kMostAttentionF32HeadDim / kWarp;

__global__ void __launch_bounds__(kThreads) attention(const AttentionF32Args args) {
  extern __shared__ float memory[];
  const int d = args.head_dim, key_stride = d + 1;  // odd: lanes reading one feature of 32 keys meet 32 banks
  float* queries = memory;                          // [kWarps, d], scaled
  float* keys = queries + kWarps * d;               // [kKeys, key_stride]
  float* values = keys + kKeys * key_stride;        // [kKeys, d]
  Tile tile;
  if (!find_tile(args.cu_queries, args.segments, kWarps, blockIdx.x, tile)) return;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int head = blockIdx.y, kv_head = head / args.group;
  const std::int64_t query = tile.first + warp;
  const bool has_query = query < tile.end;
  const std::int64_t first_key = args.cu_keys[tile.segment], num_keys = args.cu_keys[tile.segment + 1] - first_key;
  const std::int64_t place = query - args.cu_queries[tile.segment];  // of the query in its sequence
  // What the last query of the tile sees.
  const std::int64_t last_place = min(tile.first + kWarps, tile.end) - 1 - args.cu_queries[tile.segment];
  const std::int64_t end = args.causal ? min(last_place + 1, num_keys) : num_keys;
  const float scale = 1.0F / sqrtf(static_cast<float>(d));
  if (has_query) {
    for (int c = lane; c < d; c += kWarp) {
      queries[warp * d + c] = args.q[query * args.q_stride + head * d + c] * scale;
    }
  }
  float most = -INFINITY, total = 0;
  float sums[kMostHeldFeatures] = {};
  for (std::int64_t start = 0; start < end; start += kKeys) {
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

}  // namespace

cudaError_t launch_attention_f32(const AttentionF32Args& args, cudaStream_t stream) {
  if (args.queries == 0) return cudaSuccess;
  const auto bytes = static_cast<int>(
      sizeof(float) * static_cast<std::size_t>(kWarps * args.head_dim + kKeys * (2 * args.head_dim + 1)));
  if (const cudaError_t error = cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
      error != cudaSuccess) {
    return error;
  }
  const dim3 grid(static_cast<unsigned>(most_tiles(args.queries, args.segments, kWarps)),
                  static_cast<unsigned>(args.heads));
  attention<<<grid, kThreads, static_cast<std::size_t>(bytes), stream>>>(args);
  return cudaGetLastError();
}

}  // namespace clef::cuda
