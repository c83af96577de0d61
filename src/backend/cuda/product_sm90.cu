// The matrix product for Hopper: wgmma fed by the copy engine.
// Arithmetic: FP16 operands, one f32 accumulator an output, depth ascending in steps of 16; padding is zeros.
// Schedule:   a block a multiprocessor walks tiles of 128 rows by 96 to 256 columns, whichever fills the last round of
//             tiles best. One warpgroup fetches through a ring of stages, two multiply, 64 rows each. Blocks of a
//             cluster share what they read: those in one column the weights' tile, those in one row the input's, each
//             fetching a part for all. Tiles that run together lie in a square of the output, so that the second-level
//             cache serves their rows and columns.
// Bound:      the tensor cores; for few rows, what the second-level cache can send to the multiprocessors.
#include <cuda.h>

#include <algorithm>

#include "backend/cuda/product_sm90.h"
#include "backend/cuda/product_wgmma.cuh"
#include "backend/cuda/tensor_map.h"

namespace clef::cuda {
namespace {

constexpr int kTileRows = 128;
constexpr int kTileDepth = kChunk;  // 64: one swizzled row
constexpr int kWorkers = 2;
constexpr int kThreads = (1 + kWorkers) * kWarpgroup;
constexpr int kFetchRegisters = 40, kWorkRegisters = 232;  // of 65,536 a multiprocessor; setmaxnreg counts in eights
constexpr int kGroupRows = 16;                             // row tiles taken together, times all columns in turn
constexpr int kSharedBytes = 227 * 1024;
constexpr int kMostCluster = 8;

struct Params {
  CUtensorMap x, w, w_up;
  void* y;
  std::int64_t y_stride;
  const float *row_scale, *bias;
  int rows, columns;                  // of y
  int steps, plane_steps;             // of the depth, all planes; of one plane
  int cluster_rows, cluster_columns;  // blocks of a cluster; rank = row * cluster_columns + column
  int row_tiles, column_tiles;        // of clusters
  float alpha;
  bool add;          // to the y that is there
  bool whole_words;  // y takes 16-byte words
};

template <int kColumnsOf, bool kPairOf>
struct Shape {
  static constexpr int kColumns = kColumnsOf;  // rows of the weights' tile; with a pair half of them are the gate's
  static constexpr bool kPair = kPairOf;
  static constexpr int kOutColumns = kPair ? kColumns / 2 : kColumns;
  static constexpr int kRowBytes = kTileRows * kChunkRowBytes;
  static constexpr int kColumnBytes = kColumns * kChunkRowBytes;
  static constexpr int kStageBytes = kRowBytes + kColumnBytes;
  static constexpr int kStages = std::min(8, (kSharedBytes - 2048) / kStageBytes);
  static constexpr int kBytes = kStages * kStageBytes + 1024 + 256;
  static_assert(kStageBytes % kAtomBytes == 0 && kColumns / 2 * kChunkRowBytes % kAtomBytes == 0);
};

struct Place {
  int row, column;  // of the tile's first output
};

// Where a block stands in its cluster.
struct Rank {
  int row = 0, column = 0;
};

// The block's own tile of the walk's cluster of tiles `index`.
template <typename S>
__device__ Place place_of(const Params& params, int index, Rank rank) {
  const int of_group = kGroupRows * params.column_tiles;
  const int group = index / of_group, in_group = index % of_group;
  const int height = min(kGroupRows, params.row_tiles - group * kGroupRows);
  const int row_tile = group * kGroupRows + in_group % height;
  return {(row_tile * params.cluster_rows + rank.row) * kTileRows,
          (in_group / height * params.cluster_columns + rank.column) * S::kOutColumns};
}

__device__ __forceinline__ int cluster_rank() {
  int rank;
  asm volatile("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// Arrives at the barrier that lies at the same place in block `rank` of the cluster. Nothing that was written must be
// seen there, so the arrival orders nothing: a release in the cluster's scope waits for the thread's stores, a
// microsecond a stage.
__device__ __forceinline__ void barrier_arrive_at(std::uint32_t barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
__device__ __forceinline__ void copy_tile(std::uint32_t shared, const CUtensorMap* map, std::uint32_t barrier, int x,
                                          int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
// To the same place of the cluster's blocks in `mask`, whose barriers at the same place count it.
__device__ __forceinline__ void copy_tile_to(std::uint16_t mask, std::uint32_t shared, const CUtensorMap* map,
                                             std::uint32_t barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
      "{%3, %4}], [%2], %5;" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(mask)
      : "memory");
}

template <typename S>
struct Ring {
  std::uint32_t tiles, full, empty;  // addresses
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ std::uint32_t rows_at() const { return tiles + static_cast<std::uint32_t>(stage * S::kStageBytes); }
  __device__ std::uint32_t columns_at() const { return rows_at() + S::kRowBytes; }
  __device__ std::uint32_t full_at() const { return full + static_cast<std::uint32_t>(8 * stage); }
  __device__ std::uint32_t empty_at() const { return empty + static_cast<std::uint32_t>(8 * stage); }
  __device__ void advance() {
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <typename S>
__device__ void fetch(const Params& params, Ring<S> ring, Rank rank, int first, int stride, int tiles) {
  constexpr int kHalf = S::kColumns / 2;
  const int rows = params.cluster_rows, columns = params.cluster_columns;
  // The input's tile goes to the blocks of this row, the weights' to those of this column.
  const auto row_mask = static_cast<std::uint16_t>(((1 << columns) - 1) << (rank.row * columns));
  const auto column_mask =
      static_cast<std::uint16_t>((1 << rank.column) | (rows == 2 ? 1 << (columns + rank.column) : 0));
  const int slice = kTileRows / columns;  // of the input's rows, this block's to fetch
  // The weights' tile has two halves: of a pair the gate's rows and the other's, else the first rows and the rest.
  const CUtensorMap* second_map = S::kPair ? &params.w_up : &params.w;
  for (int index = first; index < tiles; index += stride) {
    const Place place = place_of<S>(params, index, rank);
    const int second_row = S::kPair ? place.column : place.column + kHalf;
    for (int step = 0; step < params.steps; ++step) {
      const int depth = (step < params.plane_steps ? step : step - params.plane_steps) * kTileDepth;
      const std::uint32_t full = ring.full_at(), second_at = ring.columns_at() + kHalf * kChunkRowBytes;
      barrier_wait(ring.empty_at(), ring.parity ^ 1);
      barrier_arrive_expecting(full, S::kStageBytes);
      if (columns == 1) {
        copy_tile(ring.rows_at(), &params.x, full, step * kTileDepth, place.row);
      } else {
        copy_tile_to(row_mask, ring.rows_at() + static_cast<std::uint32_t>(rank.column * slice * kChunkRowBytes),
                     &params.x, full, step * kTileDepth, place.row + rank.column * slice);
      }
      if (rows == 1) {
        copy_tile(ring.columns_at(), &params.w, full, depth, place.column);
        copy_tile(second_at, second_map, full, depth, second_row);
      } else if (rank.row == 0) {
        copy_tile_to(column_mask, ring.columns_at(), &params.w, full, depth, place.column);
      } else {
        copy_tile_to(column_mask, second_at, second_map, full, depth, second_row);
      }
      ring.advance();
    }
  }
}

// Zero for -infinity's like; a result of __fdividef is good to two units in the last place.
__device__ __forceinline__ float silu_of(float x) { return __fdividef(x, 1.0F + __expf(-x)); }

// A quad's lanes hold two columns each of four groups of eight; afterwards lane q holds all eight of group q.
__device__ __forceinline__ uint4 gather_group(const std::uint32_t (&words)[4], int lane_of_quad) {
  std::uint32_t out[4];
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    // Lane q sends its columns of group q ^ s to lane q ^ s, and gets those of its own group from there.
    const int group = lane_of_quad ^ s;
    const std::uint32_t sent = group == 0 ? words[0] : group == 1 ? words[1] : group == 2 ? words[2] : words[3];
    out[s] = s == 0 ? sent : __shfl_xor_sync(kFullWarp, sent, s);
  }
  // out[s] came from lane q ^ s, and holds columns 2 (q ^ s) and the next.
  const auto piece = [&](int from) {
    const int s = lane_of_quad ^ from;
    return s == 0 ? out[0] : s == 1 ? out[1] : s == 2 ? out[2] : out[3];
  };
  return make_uint4(piece(0), piece(1), piece(2), piece(3));
}

// A warpgroup's 64 rows of a tile: kColumns columns, of which this lane has two of every eight, in two rows. What is
// rare stands in loops of its own behind one branch each: a branch an element made the code larger than the instruction
// cache, and a tile's end as long as its products.
template <int kColumns>
struct Finish {
  static constexpr int kGroups = kColumns / 8;
  const Params& params;
  int row, column;  // of the lane's first row, of the tile's first column

  __device__ int column_of(int group) const { return column + group * 8 + static_cast<int>(threadIdx.x % 4) * 2; }

  __device__ void add_bias(float (&sum)[kColumns / 2]) const {
    if (params.bias == nullptr) return;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int c = column_of(g);
      const float first = c < params.columns ? params.bias[c] : 0.0F;
      const float second = c + 1 < params.columns ? params.bias[c + 1] : 0.0F;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        sum[4 * g + 2 * half] += first;
        sum[4 * g + 2 * half + 1] += second;
      }
    }
  }

  // y's columns are taken two at a time, which needs an even stride and number. Adding is left to the second-level
  // cache: one addition an element, so its order is no question, and nothing waits for the y that was there.
  __device__ void store_f32(const float (&sum)[kColumns / 2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + 8 * half;
      float* to = static_cast<float*>(params.y) + r * params.y_stride;
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        const int c = column_of(g);
        if (r >= params.rows || c >= params.columns) continue;
        const float first = sum[4 * g + 2 * half], second = sum[4 * g + 2 * half + 1];
        if (params.whole_words && params.add) {
          asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to + c), "f"(first), "f"(second)
                       : "memory");
        } else if (params.whole_words) {
          *reinterpret_cast<float2*>(to + c) = make_float2(first, second);
        } else {
          to[c] = params.add ? to[c] + first : first;
          if (c + 1 < params.columns) to[c + 1] = params.add ? to[c + 1] + second : second;
        }
      }
    }
  }

  __device__ void store_f16(const float (&sum)[kColumns / 2]) const {
    const int quad_lane = static_cast<int>(threadIdx.x % 4);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + 8 * half;
      __half* to = static_cast<__half*>(params.y) + r * params.y_stride;
#pragma unroll
      for (int g = 0; g < kGroups; g += 4) {
        std::uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int at = 4 * (g + i) + 2 * half;
          words[i] = pack_halves(sum[at], sum[at + 1]);
        }
        if (params.whole_words) {
          const uint4 word = gather_group(words, quad_lane);  // by all lanes, rows that exist or not
          const int c = column + (g + quad_lane) * 8;
          if (r < params.rows && c < params.columns) *reinterpret_cast<uint4*>(to + c) = word;
        } else if (r < params.rows) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int c = column_of(g + i);
            const __half2 both = *reinterpret_cast<const __half2*>(&words[i]);
            if (c < params.columns) to[c] = __low2half(both);
            if (c + 1 < params.columns) to[c + 1] = __high2half(both);
          }
        }
      }
    }
  }
};

// Tells those who fetch for this block that a stage is free again: the blocks of its row and of its column, one thread
// each.
template <typename S>
__device__ __forceinline__ void release(const Params& params, const Ring<S>& ring, Rank rank, int stage, int thread) {
  const std::uint32_t barrier = ring.empty + static_cast<std::uint32_t>(8 * stage);
  const int rows = params.cluster_rows, columns = params.cluster_columns;
  if (rows * columns == 1) {
    if (thread == 0) barrier_arrive(barrier);
  } else if (thread < columns) {
    barrier_arrive_at(barrier, rank.row * columns + thread);
  } else if (thread < columns + rows - 1) {
    barrier_arrive_at(barrier, (1 - rank.row) * columns + rank.column);
  }
}

template <typename S, bool kF32>
__device__ void work(const Params& params, Ring<S> ring, int worker, Rank rank, int first, int stride, int tiles) {
  constexpr int kCount = S::kColumns / 2;
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup;
  for (int index = first; index < tiles; index += stride) {
    float sum[kCount];
    int previous = -1;
#pragma unroll 1
    for (int step = 0; step < params.steps; ++step) {
      barrier_wait(ring.full_at(), ring.parity);
      const std::uint32_t a = descriptor(ring.rows_at() + static_cast<std::uint32_t>(worker * 64 * kChunkRowBytes));
      const std::uint32_t b = descriptor(ring.columns_at());
      pin(sum);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < kTileDepth / 16; ++k) {
        product_step(sum, a + static_cast<std::uint32_t>(2 * k), b + static_cast<std::uint32_t>(2 * k),
                     step > 0 || k > 0);
      }
      wgmma_commit();
      wgmma_wait<1>();  // the step before is done: its stage may be filled again
      pin(sum);
      if (previous >= 0) release(params, ring, rank, previous, thread);
      previous = ring.stage;
      ring.advance();
    }
    wgmma_wait<0>();
    pin(sum);
    release(params, ring, rank, previous, thread);
    const Place place = place_of<S>(params, index, rank);
    const int row = place.row + worker * 64 + thread / kWarpSize * 16 + thread % kWarpSize / 4;
    const Finish<S::kOutColumns> finish{params, row, place.column};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + 8 * half;
      const float scale = params.alpha * (params.row_scale == nullptr || r >= params.rows ? 1.0F : params.row_scale[r]);
#pragma unroll
      for (int i = 2 * half; i < kCount; i += 4) {
        sum[i] *= scale;
        sum[i + 1] *= scale;
      }
    }
    if constexpr (S::kPair) {
      float out[kCount / 2];
#pragma unroll
      for (int i = 0; i < kCount / 2; ++i) out[i] = silu_of(sum[i]) * sum[i + kCount / 2];
      kF32 ? finish.store_f32(out) : finish.store_f16(out);
    } else {
      finish.add_bias(sum);
      kF32 ? finish.store_f32(sum) : finish.store_f16(sum);
    }
  }
}

template <typename S, bool kF32>
__global__ void __launch_bounds__(kThreads, 1) product(const __grid_constant__ Params params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ std::uint8_t memory[];
  const std::uint32_t base = shared_address(memory);
  Ring<S> ring;
  ring.tiles = (base + 1023) / 1024 * 1024;
  ring.full = ring.tiles + S::kStages * S::kStageBytes;
  ring.empty = ring.full + 8 * S::kStages;
  const int cluster = params.cluster_rows * params.cluster_columns;
  Rank rank;
  if (cluster > 1) rank = {cluster_rank() / params.cluster_columns, cluster_rank() % params.cluster_columns};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < S::kStages; ++stage) {
      barrier_init(ring.full + static_cast<std::uint32_t>(8 * stage), 1);
      barrier_init(ring.empty + static_cast<std::uint32_t>(8 * stage),
                   kWorkers * (params.cluster_rows + params.cluster_columns - 1));
    }
    barrier_init_done();
    prefetch_map(&params.x);
    prefetch_map(&params.w);
  }
  if (cluster > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  const int first = static_cast<int>(blockIdx.x) / cluster, stride = static_cast<int>(gridDim.x) / cluster;
  const int tiles = params.row_tiles * params.column_tiles;
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kFetchRegisters));
    if (threadIdx.x == 0) fetch<S>(params, ring, rank, first, stride, tiles);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kWorkRegisters));
    work<S, kF32>(params, ring, group - 1, rank, first, stride, tiles);
  }
  // A block whose neighbour may still write to it or arrive at its barriers must stay.
  if (cluster > 1) cluster_sync();
#else
  __trap();  // built for another architecture than sm_90a
#endif
}

// A matrix of halves in boxes of 64 columns; what lies outside is zero.
bool make_map(CUtensorMap& map, const __half* data, std::int64_t rows, std::int64_t columns, std::int64_t stride,
              int box_rows) {
  const auto size = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t sizes[2] = {size(columns), size(rows)};
  const cuuint64_t strides[1] = {size(stride * 2)};
  const cuuint32_t box[2] = {kTileDepth, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  return encode_tiled() != nullptr &&
         encode_tiled()(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, const_cast<__half*>(data), sizes, strides, box, steps,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <typename S, bool kF32>
cudaError_t launch(const ProductArgs& args, Params& params, ProductTile tile, cudaStream_t stream) {
  constexpr int kHalf = S::kColumns / 2;
  if (!make_map(params.w, args.w, args.columns, args.depth, args.depth, kHalf) ||
      (S::kPair && !make_map(params.w_up, args.w_up, args.columns, args.depth, args.depth, kHalf))) {
    return cudaErrorInvalidValue;
  }
  const int cluster = tile.cluster_rows * tile.cluster_columns;
  params.cluster_rows = tile.cluster_rows;
  params.cluster_columns = tile.cluster_columns;
  params.row_tiles = static_cast<int>(div_up(args.rows, kTileRows * tile.cluster_rows));
  params.column_tiles = static_cast<int>(div_up(args.columns, S::kOutColumns * tile.cluster_columns));
  const auto kernel = product<S, kF32>;
  if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kBytes);
      error != cudaSuccess) {
    return error;
  }
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = S::kBytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  // Clusters of four do not fit into every part of the chip: a block more than fit at once would wait for all others.
  static int most[kMostCluster + 1] = {};
  if (most[cluster] == 0) {
    config.gridDim = dim3(static_cast<unsigned>(cluster));
    const cudaError_t error = cudaOccupancyMaxActiveClusters(&most[cluster], kernel, &config);
    if (error != cudaSuccess) return error;
    if (most[cluster] == 0) return cudaErrorInvalidConfiguration;
  }
  const std::int64_t clusters =
      std::min<std::int64_t>(std::int64_t{params.row_tiles} * params.column_tiles, most[cluster]);
  config.gridDim = dim3(static_cast<unsigned>(clusters * cluster));
  return cudaLaunchKernelEx(&config, kernel, params);
}

template <int kColumns>
cudaError_t launch(const ProductArgs& args, Params& params, ProductTile tile, cudaStream_t stream) {
  if (args.follow == Follow::swiglu) {
    return args.y_is_f32 ? launch<Shape<kColumns, true>, true>(args, params, tile, stream)
                         : launch<Shape<kColumns, true>, false>(args, params, tile, stream);
  }
  return args.y_is_f32 ? launch<Shape<kColumns, false>, true>(args, params, tile, stream)
                       : launch<Shape<kColumns, false>, false>(args, params, tile, stream);
}

bool on_words(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

// An estimate of what the work takes, in cycles, fitted to 308 times on an H200: the tile it picks is within 1 % of the
// best on average. A step multiplies as fast as the tensor cores allow, or as its operands come: through a
// multiprocessor's own port, and from the second-level cache to all of them.
double cycles(std::int64_t rows, std::int64_t columns, double steps, bool pair, ProductTile tile) {
  constexpr double kColumnCycles = 5.25, kPortBytes = 46, kCacheBytes = 5350, kTileCycles = 2700;
  // Clusters of four do not fit into every part of the chip.
  constexpr int kClustersAtOnce[kMostCluster + 1] = {0, 132, 66, 0, 32, 0, 0, 0, 16};
  const int cluster = tile.cluster_rows * tile.cluster_columns;
  const std::int64_t clusters = div_up(rows, kTileRows * tile.cluster_rows) *
                                div_up(columns, (pair ? tile.columns / 2 : tile.columns) * tile.cluster_columns);
  const std::int64_t at_once = std::min<std::int64_t>(clusters, kClustersAtOnce[cluster]);
  const double row_bytes = kTileRows * kChunkRowBytes, column_bytes = tile.columns * kChunkRowBytes;
  const double read = row_bytes / tile.cluster_columns + column_bytes / tile.cluster_rows;
  const double step = std::max({kColumnCycles * tile.columns, (row_bytes + column_bytes) / kPortBytes,
                                static_cast<double>(at_once * cluster) * read / kCacheBytes});
  return static_cast<double>(div_up(clusters, at_once)) * (steps * step + kTileCycles);
}

}  // namespace

cudaError_t launch_product_sm90(const ProductArgs& args, ProductTile tile, cudaStream_t stream) {
  const bool swiglu = args.follow == Follow::swiglu;
  if (args.depth % 8 != 0 || args.x_stride % 8 != 0 || !on_words(args.x) || !on_words(args.w) ||
      (swiglu && !on_words(args.w_up)) || (args.follow == Follow::add && !args.y_is_f32) ||
      args.follow == Follow::gelu_erf || args.follow == Follow::gelu_tanh ||
      (args.planes > 1 && args.plane_depth % kTileDepth != 0) || args.rows > INT32_MAX - kTileRows * 2 ||
      args.columns > INT32_MAX - 512) {
    return cudaErrorInvalidValue;
  }
  if (args.rows == 0 || args.columns == 0) return cudaSuccess;
  Params params{};
  params.y = args.y;
  params.y_stride = args.y_stride;
  params.row_scale = args.row_scale;
  params.bias = args.bias;
  params.rows = static_cast<int>(args.rows);
  params.columns = static_cast<int>(args.columns);
  params.plane_steps = static_cast<int>(div_up(args.depth, kTileDepth));
  params.steps = params.plane_steps * args.planes;
  params.alpha = args.alpha;
  params.add = args.follow == Follow::add;
  const std::int64_t element = args.y_is_f32 ? 4 : 2;
  params.whole_words = args.columns % 8 == 0 && args.y_stride * element % 16 == 0 && on_words(args.y);
  const std::int64_t x_columns = args.planes > 1 ? args.planes * args.plane_depth : args.depth;
  if (args.planes > 1 && args.plane_depth != params.plane_steps * kTileDepth) return cudaErrorInvalidValue;
  if (!make_map(params.x, args.x, args.rows, x_columns, args.x_stride, kTileRows / tile.cluster_columns)) {
    return cudaErrorInvalidValue;
  }
  switch (tile.columns) {
    case 256:
      return launch<256>(args, params, tile, stream);
    case 192:
      return launch<192>(args, params, tile, stream);
    case 128:
      return launch<128>(args, params, tile, stream);
    case 96:
      return launch<96>(args, params, tile, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t launch_product_sm90(const ProductArgs& args, cudaStream_t stream) {
  if (multiprocessors() == 0) return cudaErrorInvalidValue;
  const double steps = static_cast<double>(div_up(args.depth, kTileDepth)) * args.planes;
  const bool pair = args.follow == Follow::swiglu;
  ProductTile best;
  double least = 1e300;
  for (const int columns : {256, 192, 128, 96}) {
    if (pair && columns / 2 % 32 != 0) continue;  // 16-byte words are gathered from 32 columns
    for (const int cluster_rows : {1, 2}) {
      for (const int cluster_columns : {1, 2, 4}) {
        const ProductTile tile{columns, cluster_rows, cluster_columns};
        const double cost = cycles(args.rows, args.columns, steps, pair, tile);
        if (cost < least) {
          least = cost;
          best = tile;
        }
      }
    }
  }
  return launch_product_sm90(args, best, stream);
}

}  // namespace clef::cuda
