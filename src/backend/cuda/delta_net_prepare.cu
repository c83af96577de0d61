// DeltaNet's first pass: for each chunk of each value head what does not depend on the state, a ChunkRecord.
// Arithmetic: products of f16 in f32; gates, decays and the inverse as delta_net_prepare.cuh has them.
// Schedule:   a block of four warps a chunk and value head, each warp sixteen of its rows.
// Bound:      latency; 32 KB read and 17 KB written a chunk and head.
#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_barrier.cuh"
#include "backend/cuda/delta_net_common.cuh"
#include "backend/cuda/delta_net_prepare.cuh"
#include "backend/cuda/delta_net_tile.cuh"
#include "backend/cuda/delta_net_wgmma.cuh"
#include "backend/cuda/launch.h"

namespace clef::cuda {
namespace {

constexpr int kThreads = 32 * kWarps;

struct Tiles {
  unsigned char k[kTileBytes], q[kTileBytes];
};
struct Results {
  Planes planes;
  alignas(1024) ChunkRecord record;
};
// The planes and the record's matrices take the place of the tiles, once the tiles' products are in registers.
struct Shared {
  union {
    Tiles tiles;
    Results results;
  };
  DecaySums sums;
};
static_assert(offsetof(Results, record) + offsetof(ChunkRecord, value_gates) >= sizeof(Tiles));

// The rows of k and q, zeros past the sequence's end.
__device__ void load_tiles(const DeltaNetArgs& args, Shared& s, int first, int tokens, int key_head) {
  constexpr int kRowsAtOnce = kThreads / 16;
  const int piece = static_cast<int>(threadIdx.x) % 16, row_in_group = static_cast<int>(threadIdx.x) / 16;
  const std::uint32_t k = shared_address(s.tiles.k), q = shared_address(s.tiles.q);
#pragma unroll
  for (int group = 0; group < kChunk; group += kRowsAtOnce) {
    const int row = group + row_in_group;
    const bool present = row < tokens;
    const std::int64_t place =
        (std::int64_t{first + (present ? row : 0)} * args.key_heads + key_head) * kDeltaNetHeadDim + piece * 8;
    copy_async_16(k + tile_offset(row, piece), args.k + place, present);
    copy_async_16(q + tile_offset(row, piece), args.q + place, present);
  }
  copy_async_commit();
}

// Starts kk = K K^T and qk = Q K^T.
__device__ __forceinline__ void start_products(const Shared& s, float (&kk)[32], float (&qk)[32]) {
  const std::uint32_t k = shared_address(s.tiles.k), q = shared_address(s.tiles.q);
  wgmma_fence();
#pragma unroll
  for (int step = 0; step < kDeltaNetHeadDim / 16; ++step) {
    const auto at = static_cast<std::uint32_t>(step / 4 * kPanelBytes + step % 4 * 32);
    wgmma_n64_shared(kk, wgmma_panel(k + at, 16), wgmma_panel(k + at, 16), step > 0);
    wgmma_n64_shared(qk, wgmma_panel(q + at, 16), wgmma_panel(k + at, 16), step > 0);
  }
  wgmma_commit();
}

__device__ void prepare(const DeltaNetArgs& args) {
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

  load_tiles(args, s, first, tokens, head / (args.value_heads / args.key_heads));
  GateInputs gate_inputs;
  if (warp == 0) gate_inputs = load_gate_inputs(args, sequence, start, first, tokens, head);
  copy_async_wait<0>();
  fence_shared_for_async();
  __syncthreads();
  float kk[32], qk[32];
  start_products(s, kk, qk);
  if (warp == 0) {
    const bool flags = args.overflow != nullptr;
    const float invalid_beta = flags ? 0.0F : nanf("");
    if (!gates(gate_inputs, tokens, invalid_beta, s.sums, s.results.record) && flags) args.overflow[sequence] = 1;
  }
  wgmma_wait<0>();
  pin(kk);
  pin(qk);
  __syncthreads();  // the tiles are free
  Planes& planes = s.results.planes;
  ChunkRecord& record = s.results.record;
  apply_decays(
      planes, s.sums, record, warp, kk, 1.0F, qk, 1.0F / sqrtf(static_cast<float>(kDeltaNetHeadDim)),
      [&](int row, int column, float x, float y) { store_pair(record.scores, row, column, pack_halves(x, y)); },
      [&](int row, int column) {
        store_pair(record.scores, row, column, 0);
        store_pair(record.inverse, row, column, 0);
      });
  __syncwarp();
  invert_diagonal(planes, warp, [&](int row, int column, __half x, bool is_high) {
    if (is_high) store_half(record.inverse, row, column, x);
  });
  __syncthreads();
  invert_below(planes, warp, [&](int row, int column, std::uint32_t high, std::uint32_t /*low*/) {
    store_pair(record.inverse, row, column, high);
  });
  fence_shared_for_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    auto* to = static_cast<ChunkRecord*>(args.workspace) + std::int64_t{slot} * args.value_heads + head;
    bulk_store(to, &record, sizeof(ChunkRecord));
    bulk_stores_commit();
    bulk_stores_wait();  // shared memory lasts until then
  }
}

__global__ void __launch_bounds__(kThreads, 5) delta_net_prepare_kernel(const __grid_constant__ DeltaNetArgs args) {
  let_next_start();
  if (kHasWarpgroupProducts) {
    prepare(args);
  } else {
    __trap();  // the launcher does not choose it
  }
}

}  // namespace

cudaError_t launch_delta_net_prepare(const DeltaNetArgs& args, cudaStream_t stream) {
  const cudaError_t status = cudaFuncSetAttribute(delta_net_prepare_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(sizeof(Shared)));
  if (status != cudaSuccess) return status;
  const dim3 grid(static_cast<unsigned>(args.value_heads),
                  static_cast<unsigned>(slot_count(args.tokens, args.sequences)));
  return Launch(grid, kThreads, sizeof(Shared), stream).run(delta_net_prepare_kernel, args);
}

}  // namespace clef::cuda
