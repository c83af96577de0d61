// DeltaNet's first pass with f32 activations: for each chunk of each key head its planes, for each chunk of each value
// head what does not depend on the state, a ChunkF32Record.
// Arithmetic: operands of products in two halves (22 bits), high * low + low * high + high * high, sums in f32; gates,
//             decays and the inverse as delta_net_prepare.cuh has them.
// Schedule:   a block of four warps a chunk and value head, each warp sixteen of its rows; the first value head of a
//             key head stores that one's planes.
// Bound:      latency and memory; 64 KB read and 34 KB written a chunk and value head, 64 KB written a key head.
#include "backend/cuda/delta_net_barrier.cuh"
#include "backend/cuda/delta_net_common.cuh"
#include "backend/cuda/delta_net_f32.h"
#include "backend/cuda/delta_net_f32_tile.cuh"
#include "backend/cuda/delta_net_prepare.cuh"
#include "backend/cuda/delta_net_wgmma.cuh"
#include "backend/cuda/launch.h"

namespace clef::cuda {
namespace {

constexpr int kThreads = 32 * kWarps;

struct Results {
  ChunkPlanes chunk;
  Planes planes;
};
// The results take the place of the key head's planes, once the products are in registers.
struct Shared {
  union {
    KeyPlanes keys;
    Results results;
  };
  ChunkGates gates;
  DecaySums sums;
};
constexpr int kBlocksPerMultiprocessor = 3;
static_assert(kBlocksPerMultiprocessor * (sizeof(Shared) + 1024) <= 228 * 1024);

struct Tensors {  // where the blocks store
  KeyPlanes* keys;
  ChunkF32Record* records;
};

// Eight features into both planes.
__device__ __forceinline__ void store_split(unsigned char* high, unsigned char* low, std::uint32_t offset,
                                            const float4& x, const float4& y) {
  uint4 upper, lower;
  upper.x = split(kPlaneScale * x.x, kPlaneScale * x.y, lower.x);
  upper.y = split(kPlaneScale * x.z, kPlaneScale * x.w, lower.y);
  upper.z = split(kPlaneScale * y.x, kPlaneScale * y.y, lower.z);
  upper.w = split(kPlaneScale * y.z, kPlaneScale * y.w, lower.w);
  *reinterpret_cast<uint4*>(high + offset) = upper;
  *reinterpret_cast<uint4*>(low + offset) = lower;
}

// The rows of k and q, zeros past the sequence's end.
__device__ void load_keys(const DeltaNetF32Args& args, KeyPlanes& keys, int first, int tokens, int key_head) {
  constexpr int kRowsAtOnce = kThreads / kLanesPerHead;
  const int piece = static_cast<int>(threadIdx.x) % kLanesPerHead;
  const int row_in_group = static_cast<int>(threadIdx.x) / kLanesPerHead;
  const float4 zeros = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
#pragma unroll 4
  for (int group = 0; group < kChunk; group += kRowsAtOnce) {
    const int row = group + row_in_group;
    const bool present = row < tokens;
    const std::int64_t place =
        (std::int64_t{first + (present ? row : 0)} * args.key_heads + key_head) * kDeltaNetHeadDim + piece * 8;
    const auto* k = reinterpret_cast<const float4*>(args.k + place);
    const auto* q = reinterpret_cast<const float4*>(args.q + place);
    const float4 k0 = present ? __ldg(k) : zeros, k1 = present ? __ldg(k + 1) : zeros;
    const float4 q0 = present ? __ldg(q) : zeros, q1 = present ? __ldg(q + 1) : zeros;
    const std::uint32_t offset = tile_offset(row, piece);
    store_split(keys.k_high, keys.k_low, offset, k0, k1);
    store_split(keys.q_high, keys.q_low, offset, q0, q1);
  }
}

// d (+)= A B^T for two tiles [64, 128].
__device__ __forceinline__ void multiply_tiles(float (&d)[32], const unsigned char* a, const unsigned char* b,
                                               bool accumulate) {
  const std::uint32_t rows = shared_address(a), columns = shared_address(b);
#pragma unroll
  for (int step = 0; step < kDeltaNetHeadDim / 16; ++step) {
    const auto at = static_cast<std::uint32_t>(step / 4 * kPanelBytes + step % 4 * 32);
    wgmma_n64_shared(d, wgmma_panel(rows + at, 16), wgmma_panel(columns + at, 16), accumulate || step > 0);
  }
}

// Starts kk = K K^T and qk = Q K^T, the small products first.
__device__ __forceinline__ void start_products(const KeyPlanes& keys, float (&kk)[32], float (&qk)[32]) {
  wgmma_fence();
  multiply_tiles(kk, keys.k_low, keys.k_high, false);
  multiply_tiles(kk, keys.k_high, keys.k_low, true);
  multiply_tiles(kk, keys.k_high, keys.k_high, true);
  multiply_tiles(qk, keys.q_low, keys.k_high, false);
  multiply_tiles(qk, keys.q_high, keys.k_low, true);
  multiply_tiles(qk, keys.q_high, keys.k_high, true);
  wgmma_commit();
}

__device__ void prepare(const DeltaNetF32Args& args, const Tensors& to) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const int head = static_cast<int>(blockIdx.x), slot = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int sequence = last_not_past(
      slot, args.sequences, [&](int candidate) { return first_slot(__ldg(args.cu_seqlens + candidate), candidate); });
  const int start = __ldg(args.cu_seqlens + sequence);
  const int first = start + (slot - first_slot(start, sequence)) * kChunk;
  const int tokens = min(kChunk, __ldg(args.cu_seqlens + sequence + 1) - first);
  wait_for_inputs();        // cu_seqlens was uploaded: no kernel writes it
  if (tokens <= 0) return;  // an empty slot
  const int heads_per_key = args.value_heads / args.key_heads, key_head = head / heads_per_key;

  GateInputs gate_inputs;
  if (warp == 0) gate_inputs = load_gate_inputs(args, sequence, start, first, tokens, head);
  load_keys(args, s.keys, first, tokens, key_head);
  fence_shared_for_async();
  __syncthreads();
  if (threadIdx.x == 0 && head % heads_per_key == 0) {
    bulk_store(to.keys + std::int64_t{slot} * args.key_heads + key_head, &s.keys, sizeof(KeyPlanes));
    bulk_stores_commit();
  }
  float kk[32], qk[32];
  start_products(s.keys, kk, qk);
  if (warp == 0) gates(gate_inputs, tokens, nanf(""), s.sums, s.gates);
  wgmma_wait<0>();
  pin(kk);
  pin(qk);
  if (threadIdx.x == 0) bulk_stores_wait();
  __syncthreads();  // the keys' planes are free

  Planes& planes = s.results.planes;
  ChunkPlanes& chunk = s.results.chunk;
  apply_decays(
      planes, s.sums, s.gates, warp, kk, 1.0F / (kPlaneScale * kPlaneScale), qk, 1.0F / kPlaneScale,
      [&](int row, int column, float x, float y) {
        std::uint32_t low;
        const std::uint32_t high = split(x, y, low);
        store_pair(chunk.scores_high, row, column, high);
        store_pair(chunk.scores_low, row, column, low);
      },
      [&](int row, int column) {
        store_pair(chunk.scores_high, row, column, 0);
        store_pair(chunk.scores_low, row, column, 0);
        store_pair(chunk.inverse_high, row, column, 0);
        store_pair(chunk.inverse_low, row, column, 0);
      });
  __syncwarp();
  invert_diagonal(planes, warp, [&](int row, int column, __half x, bool is_high) {
    store_half(is_high ? chunk.inverse_high : chunk.inverse_low, row, column, x);
  });
  __syncthreads();
  invert_below(planes, warp, [&](int row, int column, std::uint32_t high, std::uint32_t low) {
    store_pair(chunk.inverse_high, row, column, high);
    store_pair(chunk.inverse_low, row, column, low);
  });
  fence_shared_for_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    ChunkF32Record* record = to.records + std::int64_t{slot} * args.value_heads + head;
    bulk_store(&record->planes, &chunk, sizeof(ChunkPlanes));
    bulk_store(&record->gates, &s.gates, sizeof(ChunkGates));
    bulk_stores_commit();
    bulk_stores_wait();  // shared memory lasts until then
  }
}

__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    delta_net_f32_prepare_kernel(const __grid_constant__ DeltaNetF32Args args, const Tensors to) {
  let_next_start();
  if (kHasWarpgroupProducts) {
    prepare(args, to);
  } else {
    __trap();  // the launcher does not choose it
  }
}

}  // namespace

cudaError_t launch_delta_net_f32_prepare(const DeltaNetF32Args& args, cudaStream_t stream) {
  const cudaError_t status = cudaFuncSetAttribute(
      delta_net_f32_prepare_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(Shared)));
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(args.value_heads),
                  static_cast<unsigned>(slot_count(args.tokens, args.sequences)));
  return Launch(grid, kThreads, sizeof(Shared), stream)
      .run(delta_net_f32_prepare_kernel, args, Tensors{key_planes(args), chunk_records(args)});
}

}  // namespace clef::cuda
