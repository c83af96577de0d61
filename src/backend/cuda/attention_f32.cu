// Attention with f32 operands: of the head, and of records whose activations leave the range of FP16.
// Arithmetic: f32. Keys in blocks of 32 from the segment's start, a lane a key; the softmax is carried from block to
//             block; then each lane sums its features over the block's keys in ascending order. Without a mask the keys
//             of a segment are taken in parts, whose number and size depend on the segment's number of keys alone, and
//             the parts' results are merged in ascending order.
// Schedule:   a block of 8 warps takes 8 queries of a segment, a warp each, and the keys block by block, of which the
//             next is on its way to shared memory while one is worked on, or another block works. In parts, a block
//             takes one part and the segment's queries eight by eight, and a second kernel merges, unless no segment
//             can have a second part: a few questions or options read the keys of a long record on all multiprocessors.
// Bound:      reading the keys and values where queries are few; shared memory where they are many.
#include "backend/cuda/attention_f32.h"

#include <algorithm>

#include "backend/cuda/lanes.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/tile.cuh"

namespace clef::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kKeys = kWarp;
constexpr std::int64_t kFewestPartKeys = 64;
constexpr std::int64_t kQueriesAtOnce = 512;  // whose parts are in memory together
constexpr std::int64_t kEnoughBlocks = 1024;  // to keep a large GPU busy

// How a block's memory is laid out, in floats. kHeadDim = 0: any head_dim and any alignment, a float at a time.
template <int kHeadDim>
struct Layout {
  static constexpr bool kIsGeneral = kHeadDim == 0;
  // Neighbouring features that a lane has, and how many features it has.
  static constexpr int kVector = kIsGeneral ? 1 : std::min(kHeadDim / kWarp, 4);
  static constexpr int kHeld = (kIsGeneral ? kMostAttentionF32HeadDim : kHeadDim) / kWarp;

  // Blocks of keys and values in shared memory. Wide heads have one, for GPUs with 99 KiB of it; their blocks are of
  // many queries, and one computes while another waits.
  static constexpr int kStages = kHeadDim == 64 || kHeadDim == 128 ? 2 : 1;
  // On a multiprocessor, of attention in parts: it waits for memory, and blocks hide each other's waiting.
  static constexpr int kBlocks = kHeadDim == 64 ? 4 : 3;

  int d;
  __host__ __device__ explicit Layout(int head_dim) : d(kIsGeneral ? head_dim : kHeadDim) {}
  // Lanes reading one feature, or four, of neighbouring keys meet other banks.
  __host__ __device__ int key_stride() const { return kIsGeneral ? d | 1 : d + 4; }
  __host__ __device__ int queries() const { return 0; }                          // [kWarps, d], scaled
  __host__ __device__ int weights() const { return kWarps * d; }                 // [kWarps, kKeys]
  __host__ __device__ int stages() const { return weights() + kWarps * kKeys; }  // [kStages]:
  __host__ __device__ int values() const { return kKeys * key_stride(); }        // [kKeys, d], past the stage's keys
  __host__ __device__ int stage_floats() const { return values() + kKeys * d; }
  __host__ __device__ int floats() const { return stages() + kStages * stage_floats(); }

  __device__ static int feature(int lane, int i) {
    return i / kVector * (kWarp * kVector) + lane * kVector + i % kVector;
  }
};

// The keys of a part, where a segment has so many: at most kAttentionF32Parts parts.
__device__ std::int64_t part_keys(std::int64_t num_keys) {
  std::int64_t keys = kFewestPartKeys;
  while (keys * kAttentionF32Parts < num_keys) keys *= 2;
  return keys;
}
__device__ int parts_of(std::int64_t num_keys) {
  const std::int64_t of_part = part_keys(num_keys);
  return static_cast<int>(max((num_keys + of_part - 1) / of_part, std::int64_t{1}));
}

// Where a query's result of one part lies: its features, its greatest logit, the sum of its weights.
constexpr int kPartialPadding = 4;  // floats beside the features
__device__ float* partial_of(const AttentionF32Args& args, std::int64_t slot, int head, int part) {
  return args.partials + ((slot * args.heads + head) * kAttentionF32Parts + part) * (args.head_dim + kPartialPadding);
}

// The last segment for which `starts` does not lie past `index`, as the whole warp finds it.
template <typename Start>
__device__ int last_started(int segments, std::int64_t index, int lane, Start start) {
  int count = 0;
  for (int first = 0; first < segments; first += kWarp) {
    const bool has_started = first + lane < segments && start(first + lane) <= index;
    const unsigned started = __ballot_sync(kAllLanes, has_started);
    count += __popc(started);
    if (started != kAllLanes) break;
  }
  return max(count, 1) - 1;
}

__device__ void copy_async_4(std::uint32_t shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(global) : "memory");
}

// Begins to copy `count` keys and values from row `first` on; others are left as they are.
template <int kHeadDim>
__device__ void fetch(const AttentionF32Args& args, const Layout<kHeadDim>& layout, std::int64_t first, int count,
                      int kv_head, float* stage) {
  constexpr int kWide = kHeadDim == 0 ? 1 : 4;  // floats
  const int words = layout.d / kWide, key_stride = layout.key_stride();
  const std::int64_t from = first * args.kv_stride + kv_head * layout.d;
  const std::uint32_t keys = shared_address(stage), values = shared_address(stage + layout.values());
  constexpr auto kFloat = static_cast<std::uint32_t>(sizeof(float));
#pragma unroll
  for (int i = threadIdx.x; i < kKeys * words; i += kThreads) {
    const int row = i / words, c = i % words * kWide;
    if (row >= count) continue;
    const std::int64_t at = from + row * args.kv_stride + c;
    const std::uint32_t key = keys + (row * key_stride + c) * kFloat, value = values + (row * layout.d + c) * kFloat;
    if constexpr (kWide == 4) {
      copy_async_16(key, args.k + at, true);
      copy_async_16(value, args.v + at, true);
    } else {
      copy_async_4(key, args.k + at);
      copy_async_4(value, args.v + at);
    }
  }
}

// What a lane has of a query: its features, and of all lanes the greatest logit and the sum of the weights.
template <int kHeadDim>
struct Result {
  float most = -INFINITY, total = 0;
  float sums[Layout<kHeadDim>::kHeld] = {};
};

template <int kHeadDim>
__device__ float logit_of(const Layout<kHeadDim>& layout, const float* query, const float* key) {
  float logit = 0;
  if constexpr (kHeadDim == 0) {
    for (int c = 0; c < layout.d; ++c) logit = fmaf(query[c], key[c], logit);
  } else {
#pragma unroll 16
    for (int c = 0; c < kHeadDim; c += 4) {
      const float4 a = *reinterpret_cast<const float4*>(query + c), b = *reinterpret_cast<const float4*>(key + c);
      logit = fmaf(a.x, b.x, logit);
      logit = fmaf(a.y, b.y, logit);
      logit = fmaf(a.z, b.z, logit);
      logit = fmaf(a.w, b.w, logit);
    }
  }
  return logit;
}

template <int kHeadDim>
__device__ void add_value(Result<kHeadDim>& result, const Layout<kHeadDim>& layout, float weight, const float* value,
                          int lane) {
  constexpr int kVector = Layout<kHeadDim>::kVector;
#pragma unroll
  for (int i = 0; i < Layout<kHeadDim>::kHeld; i += kVector) {
    const int c = layout.feature(lane, i);
    if (kHeadDim == 0 && c >= layout.d) continue;
    float v[kVector];
    if constexpr (kVector == 4) {
      const float4 four = *reinterpret_cast<const float4*>(value + c);
      v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    } else if constexpr (kVector == 2) {
      const float2 two = *reinterpret_cast<const float2*>(value + c);
      v[0] = two.x, v[1] = two.y;
    } else {
      v[0] = value[c];
    }
#pragma unroll
    for (int j = 0; j < kVector; ++j) result.sums[i + j] = fmaf(weight, v[j], result.sums[i + j]);
  }
}

// Takes a block of keys, of which the query sees the first `seen`: what lies past them is not touched.
template <int kHeadDim>
__device__ void take_block(Result<kHeadDim>& result, const Layout<kHeadDim>& layout, const float* query, float* weights,
                           const float* stage, int seen, int lane) {
  float logit = logit_of(layout, query, stage + lane * layout.key_stride());
  if (lane >= seen) logit = -INFINITY;
  const float larger = fmaxf(result.most, warp_max(logit));
  if (larger == -INFINITY) return;
  const float keep = expf(result.most - larger);
  const float weight = lane < seen ? expf(logit - larger) : 0.0F;
  weights[lane] = weight;
  result.most = larger;
  result.total = fmaf(result.total, keep, warp_sum(weight));
#pragma unroll
  for (float& sum : result.sums) sum *= keep;
  __syncwarp();
  const float* values = stage + layout.values();
  int k = 0;
#pragma unroll 4
  for (; k + 4 <= seen; k += 4) {
    const float4 four = *reinterpret_cast<const float4*>(weights + k);
    add_value(result, layout, four.x, values + k * layout.d, lane);
    add_value(result, layout, four.y, values + (k + 1) * layout.d, lane);
    add_value(result, layout, four.z, values + (k + 2) * layout.d, lane);
    add_value(result, layout, four.w, values + (k + 3) * layout.d, lane);
  }
  for (; k < seen; ++k) add_value(result, layout, weights[k], values + k * layout.d, lane);
}

// Calls put(feature, value) for what the lane has.
template <int kHeadDim, typename Put>
__device__ void each_feature(const Result<kHeadDim>& result, const Layout<kHeadDim>& layout, int lane, Put put) {
#pragma unroll
  for (int i = 0; i < Layout<kHeadDim>::kHeld; ++i) {
    const int c = layout.feature(lane, i);
    if (kHeadDim != 0 || c < layout.d) put(c, result.sums[i]);
  }
}

// Eight queries of a segment from `first_query` on, before `end_query`, and the segment's keys from `begin` to `end`.
template <int kHeadDim>
__device__ Result<kHeadDim> take_keys(const AttentionF32Args& args, const Layout<kHeadDim>& layout, float* memory,
                                      int segment, std::int64_t first_query, std::int64_t end_query, std::int64_t begin,
                                      std::int64_t end) {
  constexpr int kStages = Layout<kHeadDim>::kStages;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, d = layout.d;
  const int head = blockIdx.y, kv_head = head / args.group;
  const std::int64_t query = first_query + warp;
  const bool has_query = query < end_query && (!args.causal || query - args.cu_queries[segment] >= args.prefix);
  // One past the last key of the segment that the query sees.
  const std::int64_t end_seen = args.causal ? min(query - args.cu_queries[segment] + 1, end) : end;
  const std::int64_t first_key = args.cu_keys[segment];
  const auto fetch_block = [&](std::int64_t start, int stage) {
    if (start < end) {
      const int count = static_cast<int>(min(end - start, std::int64_t{kKeys}));
      fetch(args, layout, first_key + start, count, kv_head, memory + layout.stages() + stage * layout.stage_floats());
    }
    copy_async_commit();
  };
#pragma unroll
  for (int s = 0; s < kStages; ++s) fetch_block(begin + s * kKeys, s);
  float* scaled = memory + layout.queries() + warp * d;
  if (has_query) {
    const float scale = 1.0F / sqrtf(static_cast<float>(d));
    const float* q = args.q + (query - (segment + 1) * args.prefix) * args.q_stride + head * d;
    for (int c = lane; c < d; c += kWarp) scaled[c] = q[c] * scale;
  }
  Result<kHeadDim> result;
  int stage = 0;
  for (std::int64_t start = begin; start < end; start += kKeys) {
    copy_async_wait<kStages - 1>();
    __syncthreads();
    const int seen = static_cast<int>(min(end_seen - start, std::int64_t{kKeys}));
    if (has_query && seen > 0) {
      take_block(result, layout, scaled, memory + layout.weights() + warp * kKeys,
                 memory + layout.stages() + stage * layout.stage_floats(), seen, lane);
    }
    __syncthreads();  // all have read the stage, and the last time the queries
    fetch_block(start + kStages * kKeys, stage);
    stage = (stage + 1) % kStages;
  }
  copy_async_wait<0>();
  return result;
}

// The kernels find their work before they wait: where segments start is uploaded, and written by no kernel.
//
// Keys in one go: a block eight queries and a head.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads) attention(const AttentionF32Args args) {
  let_next_start();
  extern __shared__ float4 memory[];
  const Layout<kHeadDim> layout(args.head_dim);
  Tile tile;
  const bool has_tile = find_tile(args.cu_queries, args.segments, kWarps, blockIdx.x, tile);
  wait_for_inputs();
  if (!has_tile) return;
  const int lane = threadIdx.x % kWarp, head = blockIdx.y, d = layout.d;
  const std::int64_t num_keys = args.cu_keys[tile.segment + 1] - args.cu_keys[tile.segment];
  // What the last query of the tile sees.
  const std::int64_t last_place = min(tile.first + kWarps, tile.end) - 1 - args.cu_queries[tile.segment];
  const std::int64_t end = args.causal ? min(last_place + 1, num_keys) : num_keys;
  const Result<kHeadDim> result =
      take_keys(args, layout, reinterpret_cast<float*>(memory), tile.segment, tile.first, tile.end, 0, end);
  const std::int64_t query = tile.first + threadIdx.x / kWarp;
  if (query >= tile.end || query - args.cu_queries[tile.segment] < args.prefix) return;
  const std::int64_t row = query - (tile.segment + 1) * args.prefix;
  float* to = args.y + row * args.y_stride + head * d;
  each_feature(result, layout, lane, [&](int c, float sum) {
    float value = sum / result.total;
    if (args.gate != nullptr) value *= sigmoid(args.gate[row * args.gate_stride + head * 2 * d + d + c]);
    to[c] = value;
  });
}

// Keys in parts: a block one part of a segment's keys, a head, and of the segment's queries from `first_query` to
// `end_query` every gridDim.z-th eight. Segment s has blocks from start(s) on; those past its parts have nothing to do.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, Layout<kHeadDim>::kBlocks)
    attention_in_parts(const AttentionF32Args args, std::int64_t first_query, std::int64_t end_query) {
  let_next_start();
  extern __shared__ float4 memory[];
  const Layout<kHeadDim> layout(args.head_dim);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, head = blockIdx.y, d = layout.d;
  const auto start = [&](int s) { return args.cu_keys[s] / kFewestPartKeys + s; };
  const int segment = last_started(args.segments, blockIdx.x, lane, start);
  const std::int64_t num_keys = args.cu_keys[segment + 1] - args.cu_keys[segment], of_part = part_keys(num_keys);
  const int parts = parts_of(num_keys), part = static_cast<int>(blockIdx.x - start(segment));
  wait_for_inputs();
  if (part >= parts) return;
  const std::int64_t first = max(first_query, std::int64_t{args.cu_queries[segment]});
  const std::int64_t last = min(end_query, std::int64_t{args.cu_queries[segment + 1]});
  const std::int64_t begin = part * of_part, end = min(num_keys, begin + of_part);
  for (std::int64_t tile = first + std::int64_t{blockIdx.z} * kWarps; tile < last;
       tile += std::int64_t{gridDim.z} * kWarps) {
    const Result<kHeadDim> result =
        take_keys(args, layout, reinterpret_cast<float*>(memory), segment, tile, last, begin, end);
    const std::int64_t query = tile + warp;
    if (query >= last) continue;
    if (parts == 1) {  // as merge() does it
      const float keep = expf(result.most - result.most), total = fmaf(result.total, keep, 0.0F);
      float* to = args.y + query * args.y_stride + head * d;
      each_feature(result, layout, lane, [&](int c, float sum) { to[c] = fmaf(sum, keep, 0.0F) / total; });
      continue;
    }
    float* to = partial_of(args, query - first_query, head, part);
    if (lane == 0) {
      to[d] = result.most;
      to[d + 1] = result.total;
    }
    each_feature(result, layout, lane, [&](int c, float sum) { to[c] = sum; });
  }
}

// A warp a query and head. The greatest logit of all is found first, so each part is scaled once.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads) merge(const AttentionF32Args args, std::int64_t first_query) {
  constexpr int kHeld = Layout<kHeadDim>::kHeld, kLaneParts = kAttentionF32Parts / kWarp;
  constexpr int kAtOnce = 8;  // parts whose features are on their way together
  static_assert(kWarp % kAtOnce == 0 && kLaneParts == 2);
  let_next_start();
  const Layout<kHeadDim> layout(args.head_dim);
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, d = layout.d;
  const int head = static_cast<int>(blockIdx.y) * kWarps + warp;
  const std::int64_t query = first_query + blockIdx.x;
  const int segment = last_started(args.segments, query, lane, [&](int s) { return args.cu_queries[s]; });
  const int parts = parts_of(args.cu_keys[segment + 1] - args.cu_keys[segment]);
  wait_for_inputs();
  if (head >= args.heads || parts == 1) return;  // of a segment of one part there is nothing to merge
  const float* from = partial_of(args, blockIdx.x, head, 0);
  const int stride = d + kPartialPadding;
  float values[kAtOnce][kHeld];
  const auto load = [&](int first) {
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) {
#pragma unroll
      for (int i = 0; i < kHeld; ++i) {
        const int c = layout.feature(lane, i);
        const bool exists = first + p < parts && (kHeadDim != 0 || c < d);
        values[p][i] = exists ? from[(first + p) * stride + c] : 0.0F;
      }
    }
  };
  load(0);
  // A lane has every 32nd part's greatest logit and sum.
  float most = -INFINITY, keeps[kLaneParts], totals[kLaneParts];
#pragma unroll
  for (int i = 0; i < kLaneParts; ++i) {
    const int p = i * kWarp + lane;
    keeps[i] = p < parts ? from[p * stride + d] : -INFINITY;
    totals[i] = p < parts ? from[p * stride + d + 1] : 0.0F;
    most = fmaxf(most, keeps[i]);
  }
  most = warp_max(most);
#pragma unroll
  for (float& keep : keeps) keep = expf(keep - most);
  float total = 0;
  float sums[kHeld] = {};
  for (int first = 0; first < parts; first += kAtOnce) {
    const float keep_of_lane = first < kWarp ? keeps[0] : keeps[1];
    const float total_of_lane = first < kWarp ? totals[0] : totals[1];
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) {
      if (first + p >= parts) break;
      const float keep = __shfl_sync(kAllLanes, keep_of_lane, (first + p) % kWarp);
      total = fmaf(__shfl_sync(kAllLanes, total_of_lane, (first + p) % kWarp), keep, total);
#pragma unroll
      for (int i = 0; i < kHeld; ++i) sums[i] = fmaf(values[p][i], keep, sums[i]);
    }
    load(first + kAtOnce);
  }
  float* to = args.y + query * args.y_stride + head * d;
#pragma unroll
  for (int i = 0; i < kHeld; ++i) {
    const int c = layout.feature(lane, i);
    if (kHeadDim != 0 || c < d) to[c] = sums[i] / total;
  }
}

bool in_parts(const AttentionF32Args& args) { return !args.causal && args.gate == nullptr; }
// Some segment may have a second part.
bool may_merge(const AttentionF32Args& args) { return in_parts(args) && args.keys > kFewestPartKeys; }

template <int kHeadDim>
cudaError_t launch(const AttentionF32Args& args, cudaStream_t stream) {
  const int bytes = Layout<kHeadDim>(args.head_dim).floats() * static_cast<int>(sizeof(float));
  const auto run = [&](dim3 grid, auto kernel, auto... arguments) {
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error != cudaSuccess) return error;
    return Launch(grid, kThreads, static_cast<std::size_t>(bytes), stream).run(kernel, arguments...);
  };
  const auto heads = static_cast<unsigned>(args.heads);
  if (!in_parts(args)) {
    const auto tiles = static_cast<unsigned>(most_tiles(args.queries, args.segments, kWarps));
    return run(dim3(tiles, heads), attention<kHeadDim>, args);
  }
  // A part has at least kFewestPartKeys keys, but for a segment's last.
  std::int64_t parts = args.keys / kFewestPartKeys + args.segments;
  if (args.segments == 1) parts = std::min<std::int64_t>(parts, kAttentionF32Parts);
  for (std::int64_t first = 0; first < args.queries; first += kQueriesAtOnce) {
    const std::int64_t count = std::min(kQueriesAtOnce, args.queries - first);
    const std::int64_t eights =
        std::clamp<std::int64_t>(kEnoughBlocks / (parts * args.heads), 1, blocks(count, kWarps));
    const dim3 grid(static_cast<unsigned>(parts), heads, static_cast<unsigned>(eights));
    cudaError_t error = run(grid, attention_in_parts<kHeadDim>, args, first, first + count);
    if (error == cudaSuccess && may_merge(args)) {
      const dim3 merging(static_cast<unsigned>(count), blocks(args.heads, kWarps));
      error = Launch(merging, kThreads, 0, stream).run(merge<kHeadDim>, args, first);
    }
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

bool has_aligned_keys(const AttentionF32Args& args) {
  const auto at = reinterpret_cast<std::uintptr_t>(args.k) | reinterpret_cast<std::uintptr_t>(args.v);
  return at % sizeof(float4) == 0 && args.kv_stride % 4 == 0;
}

}  // namespace

std::int64_t attention_f32_partials(const AttentionF32Args& args) {
  if (!may_merge(args)) return 0;
  return std::min(args.queries, kQueriesAtOnce) * args.heads * kAttentionF32Parts * (args.head_dim + kPartialPadding);
}

cudaError_t launch_attention_f32(const AttentionF32Args& args, cudaStream_t stream) {
  if (args.queries == 0) return cudaSuccess;
  if (args.head_dim > kMostAttentionF32HeadDim || (attention_f32_partials(args) > 0) != (args.partials != nullptr)) {
    return cudaErrorInvalidValue;
  }
  if (has_aligned_keys(args)) {
    if (args.head_dim == 64) return launch<64>(args, stream);
    if (args.head_dim == 128) return launch<128>(args, stream);
    if (args.head_dim == 256) return launch<256>(args, stream);
  }
  return launch<0>(args, stream);
}

}  // namespace clef::cuda
