// Attention for Hopper, on wgmma and the copy engine.
// Arithmetic: as attention_mma.cu's, with blocks of 80 keys for the text layers and of 96 for the vision tower, and one
//             difference: where no row of a warp has a new maximum, the product by 1 is left out, which changes no bit.
// Schedule:   tiles are taken the heaviest first: where they are short, by as many blocks as there are multiprocessors,
//             in an order that runs back and forth over them, each fetching the next tile's keys while it finishes
//             the last; where they are long, by a block each, so that the hardware balances them, and few key heads
//             at a time, so that the keys stay in the second-level cache. A warpgroup has 64 rows: some tokens times
//             some heads that share their keys. One warpgroup fetches; the others multiply, each starting the next
//             block's scores before it weighs the values of the last, so that softmax runs beside the tensor cores.
// Bound:      the tensor cores; at short lengths the time of the longest row.
#pragma once

#include <cuda.h>
#include <cuda_fp16.h>

#include "backend/cuda/attention_tile.cuh"
#include "backend/cuda/attention_wgmma.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/tile.cuh"

namespace clef::cuda::sm90 {

constexpr int kRows = 64;   // a warpgroup's: what wgmma multiplies
constexpr int kStages = 2;  // of keys, and of values

struct Params {
  CUtensorMap q, gate;  // [heads, tokens, head_dim]
  CUtensorMap k, v;     // [heads, tokens, head_dim], or [1, tokens, heads * head_dim] (Config::kHeadsInRow)
  __half* y;
  std::int64_t y_stride;
  const int* cu;
  int* overflow;
  int sequences, slots, heads, group, prefix;
  int packed;       // heads of a tile: 1, 2 or 4, all reading the same keys
  int token_shift;  // 64 / packed tokens are a warpgroup's, and this is the logarithm
  int pass;         // heads whose tiles are mixed; a pass goes over all tokens before the next begins
  float scale;      // log2(e) / sqrt(head_dim)
};

// kWorkers warpgroups multiply. With kTurns they start their products one after another, so that one has the tensor
// cores while the others have the time for their softmax.
template <int kHeadDimOf, int kKeysOf, int kWorkersOf, bool kCausalOf, bool kTurnsOf>
struct Config {
  static constexpr int kHeadDim = kHeadDimOf, kKeys = kKeysOf, kWorkers = kWorkersOf;
  static constexpr bool kCausal = kCausalOf;
  static constexpr bool kTurns = kTurnsOf && kWorkers > 1;
  static constexpr int kChunks = (kHeadDim + kChunk - 1) / kChunk;
  static constexpr int kThreads = (1 + kWorkers) * kWarpgroup;
  static constexpr int kQueryBytes = kChunks * kRows * kChunkRowBytes;
  static constexpr int kKeyBytes = kChunks * kKeys * kChunkRowBytes;
  // Registers a thread: a multiprocessor has 65,536, and setmaxnreg counts in eights.
  [[maybe_unused]] static constexpr int kFetchRegisters = kWorkers == 3 ? 32 : 24;
  [[maybe_unused]] static constexpr int kWorkRegisters = kWorkers == 3 ? 160 : 240;
  // A head that does not end with a chunk: what its last chunk holds beyond it is the next head's, and not zeros, which
  // cost the copy engine more than what is there. Of keys it meets the queries' zeros (what is not finite makes this
  // head's scores so too, and its sequence is flagged in any case); of values it is not multiplied.
  static constexpr bool kHeadsInRow = kHeadDim % kChunk != 0;
  static_assert(kKeys % 16 == 0 && kKeys * kChunkRowBytes % kAtomBytes == 0);
  static_assert(kWorkers <= 3, "a warp of the fetching warpgroup for each, and one for the keys");
};

struct TileInfo {
  SequenceTile rows;  // `length` 0: no more tiles
  int head;           // the first of the tile's
  int blocks;         // of keys
};

template <typename C>
struct Shared {
  alignas(1024) std::uint8_t q[C::kWorkers][C::kQueryBytes];  // then the gate, then the result
  alignas(1024) std::uint8_t k[kStages][C::kKeyBytes];
  alignas(1024) std::uint8_t v[kStages][C::kKeyBytes];
  TileInfo info[C::kWorkers];
  alignas(8) std::uint64_t q_full[C::kWorkers], q_empty[C::kWorkers];
  std::uint64_t k_full[kStages], k_empty[kStages], v_full[kStages], v_empty[kStages];
};

// A place in a ring of stages, with the parity of its barriers' phase.
struct Stage {
  int index = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    index ^= 1;
    parity ^= index == 0;
  }
};
static_assert(kStages == 2);

// The tiles of this block, in turn. Every warp that needs them counts for itself.
template <typename C>
class Tiles {
 public:
  __device__ explicit Tiles(const Params& params) : params_(params) {}

  __device__ TileInfo next() {
    const int across = params_.pass / params_.packed, tokens = C::kWorkers * kRows / params_.packed;
    const int of_pass = params_.slots * across, count = params_.slots * (params_.heads / params_.packed);
    const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    for (; round_ * blocks < count; ++round_) {
      // Forth in even rounds, back in odd ones: the block with the heaviest tile gets the lightest of the next round.
      const int index = round_ * blocks + (round_ % 2 == 0 ? block : blocks - 1 - block);
      if (index >= count) continue;
      const int in_pass = index % of_pass;
      TileInfo tile;
      tile.rows = find_tile(params_.cu, params_.sequences, tokens, params_.slots - 1 - in_pass / across);
      if (tile.rows.first >= tile.rows.length) continue;
      if (C::kCausal && tile.rows.first + tokens <= params_.prefix) continue;
      tile.head = index / of_pass * params_.pass + in_pass % across * params_.packed;
      const int last = C::kCausal ? min(tile.rows.first + tokens, tile.rows.length) : tile.rows.length;
      tile.blocks = (last + C::kKeys - 1) / C::kKeys;
      ++round_;
      return tile;
    }
    return {{0, 0, 0, 0}, 0, 0};
  }

 private:
  const Params& params_;
  int round_ = 0;
};

// Where the tile's sequence begins in the matrices that have rows of new tokens alone.
template <typename C>
__device__ __forceinline__ int query_start(const Params& params, const TileInfo& tile) {
  return C::kCausal ? tile.rows.start_without(params.prefix) : tile.rows.start;
}

// --- the fetching warpgroup: one thread for the keys and values, one for each worker's queries ---

template <typename C>
__device__ void fetch_queries_of(std::uint32_t tile, const CUtensorMap* map, std::uint32_t barrier, int token,
                                 int head) {
#pragma unroll
  for (int chunk = 0; chunk < C::kChunks; ++chunk) {
    copy_box(tile + static_cast<std::uint32_t>(chunk * kRows * kChunkRowBytes), map, barrier, chunk * kChunk, token,
             head);
  }
}

// Of a head of keys or values.
template <typename C>
__device__ void fetch_keys_of(std::uint32_t tile, const CUtensorMap* map, std::uint32_t barrier, int token, int head) {
#pragma unroll
  for (int chunk = 0; chunk < C::kChunks; ++chunk) {
    copy_box(tile + static_cast<std::uint32_t>(chunk * C::kKeys * kChunkRowBytes), map, barrier,
             chunk * kChunk + (C::kHeadsInRow ? head * C::kHeadDim : 0), token, C::kHeadsInRow ? 0 : head);
  }
}

// The same into the second-level cache, for later.
template <typename C>
__device__ void announce_rows(const CUtensorMap* map, int token, int head) {
#pragma unroll
  for (int chunk = 0; chunk < C::kChunks; ++chunk) prefetch_box(map, chunk * kChunk, token, head);
}

template <typename C>
__device__ void fetch_keys(Shared<C>& shared, const Params& params) {
  Tiles<C> tiles(params);
  Stage k, v;
  const auto fetch_value = [&](const TileInfo& tile, int block) {
    const std::uint32_t full = shared_address(&shared.v_full[v.index]);
    barrier_wait(shared_address(&shared.v_empty[v.index]), v.parity ^ 1);
    barrier_arrive_expecting(full, C::kKeyBytes);
    fetch_keys_of<C>(shared_address(shared.v[v.index]), &params.v, full, tile.rows.start + block * C::kKeys,
                     tile.head / params.group);
    v.advance();
  };
  for (TileInfo tile = tiles.next(); tile.rows.length > 0; tile = tiles.next()) {
    for (int block = 0; block < tile.blocks; ++block) {
      const std::uint32_t full = shared_address(&shared.k_full[k.index]);
      barrier_wait(shared_address(&shared.k_empty[k.index]), k.parity ^ 1);
      barrier_arrive_expecting(full, C::kKeyBytes);
      fetch_keys_of<C>(shared_address(shared.k[k.index]), &params.k, full, tile.rows.start + block * C::kKeys,
                       tile.head / params.group);
      k.advance();
      if (block > 0) fetch_value(tile, block - 1);
    }
    fetch_value(tile, tile.blocks - 1);
  }
}

// A worker's queries, and in the same place, once the scores are done, its gate.
template <typename C>
__device__ void fetch_queries(Shared<C>& shared, const Params& params, int worker) {
  const std::uint32_t place = shared_address(shared.q[worker]);
  const std::uint32_t full = shared_address(&shared.q_full[worker]), empty = shared_address(&shared.q_empty[worker]);
  Tiles<C> tiles(params);
  std::uint32_t parity = 1;
  for (;;) {
    const TileInfo tile = tiles.next();
    // Before the first new token it may be negative: rows that are not there are zeros, and nobody stores theirs.
    const int token = query_start<C>(params, tile) + tile.rows.first + worker * (kRows / params.packed);
    if (tile.rows.length > 0) {
      announce_rows<C>(&params.q, token, tile.head);
      if constexpr (C::kCausal) announce_rows<C>(&params.gate, token, tile.head);
    }
    barrier_wait(empty, parity);
    parity ^= 1;
    shared.info[worker] = tile;
    if (tile.rows.length == 0) {
      barrier_arrive(full);
      return;
    }
    barrier_arrive_expecting(full, C::kQueryBytes);
    fetch_queries_of<C>(place, &params.q, full, token, tile.head);
    if constexpr (C::kCausal) {
      barrier_wait(empty, parity);
      parity ^= 1;
      barrier_arrive_expecting(full, C::kQueryBytes);
      fetch_queries_of<C>(place, &params.gate, full, token, tile.head);
    }
  }
}

// --- the working warpgroups ---

__device__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, 1));
  return fmaxf(x, __shfl_xor_sync(kFullWarp, x, 2));
}

__device__ float quad_sum(float x) {
  x = __fadd_rn(x, __shfl_xor_sync(kFullWarp, x, 1));
  return __fadd_rn(x, __shfl_xor_sync(kFullWarp, x, 2));
}

// What a lane knows of its two rows' softmax.
struct Softmax {
  float largest[2] = {-INFINITY, -INFINITY};  // of the scores so far
  float total[2] = {0, 0};                    // this lane's part of the sum of p
  float rescale[2];                           // what the last block asked of the sums before it

  // Scores become p. Of row i / 2 % 2, in columns that the caller has masked.
  template <int kCount>
  __device__ void update(float (&score)[kCount], float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float block_max = -INFINITY;
#pragma unroll
      for (int i = 2 * half; i < kCount; i += 4) block_max = fmaxf(block_max, fmaxf(score[i], score[i + 1]));
      const float now = fmaxf(largest[half], quad_max(block_max));
      rescale[half] = exp2_approximate(__fmul_rn(__fsub_rn(largest[half], now), scale));
      largest[half] = now;
      total[half] = __fmul_rn(total[half], rescale[half]);
      const float shift = -__fmul_rn(now, scale);
#pragma unroll
      for (int i = 2 * half; i < kCount; i += 4) {
        score[i] = exp2_approximate(__fmaf_rn(score[i], scale, shift));
        score[i + 1] = exp2_approximate(__fmaf_rn(score[i + 1], scale, shift));
        total[half] = __fadd_rn(total[half], __fadd_rn(score[i], score[i + 1]));
      }
    }
  }

  template <int kCount>
  __device__ void apply_rescale(float (&out)[kCount]) const {
    if (__any_sync(kFullWarp, rescale[0] != 1.0F || rescale[1] != 1.0F)) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) out[i] = __fmul_rn(out[i], rescale[i / 2 % 2]);
    }
  }
};

template <typename C>
class Worker {
 public:
  __device__ Worker(Shared<C>& shared, const Params& params, int worker)
      : shared_(shared),
        params_(params),
        worker_(worker),
        thread_(threadIdx.x % kWarpgroup),
        lane_(threadIdx.x % kWarpSize),
        token_shift_(params.token_shift),
        q_(shared_address(shared.q[worker])) {}

  __device__ void run() {
    if (C::kTurns && worker_ == C::kWorkers - 1) pass_turn(0);
    const std::uint32_t q_full = shared_address(&shared_.q_full[worker_]);
    for (;;) {
      barrier_wait(q_full, q_parity_);
      q_parity_ ^= 1;
      tile_ = shared_.info[worker_];
      if (tile_.rows.length == 0) return;
      multiply();
      finish();
    }
  }

 private:
  static constexpr int kHeadDim = C::kHeadDim, kKeys = C::kKeys;

  // This lane's rows of the 64: row(0) and row(1), eight further.
  __device__ unsigned row(unsigned half) const { return first_row() + lane_ / 4 + half * 8; }
  __device__ unsigned first_row() const { return thread_ / kWarpSize * 16; }
  // Heads lie one behind the other, each with its tokens, as the copy engine brings them.
  __device__ int head(unsigned row) const { return tile_.head + static_cast<int>(row >> token_shift_); }
  __device__ int token(unsigned row) const {
    return first_token() + static_cast<int>(row & ((1u << token_shift_) - 1));
  }
  __device__ int first_token() const { return tile_.rows.first + (worker_ << token_shift_); }

  // For the whole warp: all its lanes have read what is given back.
  __device__ void release(std::uint64_t& barrier) const {
    __syncwarp();
    if (lane_ == 0) barrier_arrive(shared_address(&barrier));
  }
  // The queries' place and the tile's description, once a tile: every thread for itself, which asks nothing of the warp
  // and is an order that racecheck can follow. It holds a release to order the accesses of the thread that arrives, and
  // no others that came to it through __syncwarp.
  __device__ void release_queries() const { barrier_arrive(shared_address(&shared_.q_empty[worker_])); }

  __device__ void wait_turn() const { asm volatile("bar.sync %0, 256;" ::"r"(kFirstTurn + worker_) : "memory"); }
  __device__ void pass_turn(int worker) const {
    asm volatile("bar.arrive %0, 256;" ::"r"(kFirstTurn + worker) : "memory");
  }
  static constexpr int kFirstTurn = 8;  // of the 16 barriers; the warpgroups' own are 1 to 3

  // score = q * k^T, started.
  __device__ void start_scores() {
    barrier_wait(shared_address(&shared_.k_full[k_.index]), k_.parity);
    std::uint32_t q = descriptor(q_), k = descriptor(shared_address(shared_.k[k_.index]));
    asm volatile("" : "+r"(q), "+r"(k));  // or the steps' 32 words are kept in registers that there are not
    pin(score_);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < (kHeadDim + 15) / 16; ++step) {
      constexpr int kSteps = kChunk / 16;
      const auto at = [](int rows, int s) {
        return static_cast<std::uint32_t>((s / kSteps * rows * kChunkRowBytes + s % kSteps * 32) / 16);
      };
      wgmma(score_, q + at(kRows, step), k + at(kKeys, step), step > 0);
    }
    wgmma_commit();
  }

  // out += p * v, started.
  __device__ void start_output() {
    const std::uint32_t v = descriptor(shared_address(shared_.v[v_.index]), kKeys * kChunkRowBytes);
    pin(out_);
    pin(p_);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      const std::uint32_t a[4] = {p_[4 * step], p_[4 * step + 1], p_[4 * step + 2], p_[4 * step + 3]};
      wgmma(out_, a, v + static_cast<std::uint32_t>(step * 2 * kAtomBytes / 16));
    }
    wgmma_commit();
  }

  __device__ void wait_values() { barrier_wait(shared_address(&shared_.v_full[v_.index]), v_.parity); }

  // A select, not a sum: the score of a missing key may be NaN.
  __device__ void mask(int block) {
    const int first_key = block * kKeys;
    const int earliest = C::kCausal ? first_token() + 1 : tile_.rows.length;
    if (first_key + kKeys <= earliest) return;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const int key = first_key + i / 4 * 8 + i % 2 + static_cast<int>(lane_ % 4 * 2);
      const int end = C::kCausal ? token(row(static_cast<unsigned>(i) / 2 % 2)) + 1 : tile_.rows.length;
      score_[i] = key < end ? score_[i] : -INFINITY;
    }
  }

  __device__ void round_p() {
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) p_[i] = pack_halves(score_[2 * i], score_[2 * i + 1]);
  }

  // Rows past the sequence's end belong to another sequence, or to none: p = 0 times NaN would be NaN.
  // Every worker clears them all, for itself: the same zeros.
  __device__ void clear_missing_values() {
    const int present = tile_.rows.length - (tile_.blocks - 1) * kKeys;
    if (present >= kKeys) return;
    const std::uint32_t v = shared_address(shared_.v[v_.index]);
    const int words = (kKeys - present) * (kChunkRowBytes / 16);
    for (int i = static_cast<int>(thread_); i < words; i += kWarpgroup) {
#pragma unroll
      for (int chunk = 0; chunk < C::kChunks; ++chunk) {
        const std::uint32_t at = v + static_cast<std::uint32_t>((chunk * kKeys + present) * kChunkRowBytes + i * 16);
        store_words(at, uint4{0, 0, 0, 0});
      }
    }
    fence_async_proxy();
    warpgroup_sync(worker_);
  }

  __device__ void multiply() {
    softmax_ = Softmax();
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) out_[i] = 0;
      // The product needs no zeros here, but without them the last tile's scores would be kept until now.
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) score_[i] = 0;

    start_scores();
    wgmma_wait<0>();
    pin(score_);
    release(shared_.k_empty[k_.index]);
    k_.advance();
    mask(0);
    softmax_.update(score_, params_.scale);
    round_p();

#pragma unroll 1
    for (int block = 1; block < tile_.blocks; ++block) {
      if constexpr (C::kTurns) wait_turn();
      start_scores();
      wait_values();
      start_output();
      if constexpr (C::kTurns) pass_turn((worker_ + 1) % C::kWorkers);
      wgmma_wait<1>();
      pin(score_);
      release(shared_.k_empty[k_.index]);
      k_.advance();
      mask(block);
      softmax_.update(score_, params_.scale);
      pin(score_);  // the weights are made while the values are multiplied: the compiler would wait for those first
      wgmma_wait<0>();
      pin(out_);
      pin(p_);
      release(shared_.v_empty[v_.index]);
      v_.advance();
      softmax_.apply_rescale(out_);
      round_p();
    }

    if constexpr (C::kCausal) release_queries();  // the gate may come
    wait_values();
    clear_missing_values();
    start_output();
    wgmma_wait<0>();
    pin(out_);
    pin(p_);
    if constexpr (C::kCausal) fence_async_proxy();
    release(shared_.v_empty[v_.index]);
    v_.advance();
  }

  // Where a value of a row lies in the swizzled tile of queries.
  __device__ std::uint32_t place(unsigned row, unsigned column) const {
    return q_ + column / kChunk * (kRows * kChunkRowBytes) + row * kChunkRowBytes +
           (column % kChunk / 8 ^ row % 8) * 16 + column % 8 * 2;
  }

  // Keeps the compiler from working out a tile's places once for all tiles: there are no registers to hold them.
  __device__ void forget_places() {
    asm volatile("" : "+r"(thread_), "+r"(lane_));
    thread_ %= kWarpgroup;  // which it must not forget
    lane_ %= kWarpSize;
  }

  // Divides, gates, rounds; the rows meet in shared memory, so that they leave 16 bytes a lane.
  __device__ void finish() {
    forget_places();
    bool bad[2] = {false, false};
    const float inverse[2] = {reciprocal_approximate(quad_sum(softmax_.total[0])),
                              reciprocal_approximate(quad_sum(softmax_.total[1]))};
    if constexpr (C::kCausal) {
      barrier_wait(shared_address(&shared_.q_full[worker_]), q_parity_);
      q_parity_ ^= 1;
    } else {
      warpgroup_sync(worker_);  // every warp is done with the queries
    }
    // Sixteen words at a time: so many chains of exponentials and reciprocals hide each other's latency.
    constexpr unsigned kWords = kHeadDim / 4, kTogether = kWords < 16 ? kWords : 16;
#pragma unroll
    for (unsigned first = 0; first < kWords; first += kTogether) {
      std::uint32_t halves[kTogether];
#pragma unroll
      for (unsigned i = 0; i < kTogether && first + i < kWords; ++i) {
        if constexpr (C::kCausal) halves[i] = load_word(result_place(first + i));
      }
#pragma unroll
      for (unsigned i = 0; i < kTogether && first + i < kWords; ++i) {
        const float* out = out_ + 2 * (first + i);
        float2 value = {__fmul_rn(out[0], inverse[i % 2]), __fmul_rn(out[1], inverse[i % 2])};
        if constexpr (C::kCausal) {
          const float2 gate = unpack_halves(halves[i]);
          value = {__fmul_rn(value.x, approximate_sigmoid(gate.x)), __fmul_rn(value.y, approximate_sigmoid(gate.y))};
        }
        bad[i % 2] |= !(fabsf(value.x) <= kLargestHalf) || !(fabsf(value.y) <= kLargestHalf);
        halves[i] = pack_halves(value.x, value.y);
      }
#pragma unroll
      for (unsigned i = 0; i < kTogether && first + i < kWords; ++i) store_word(result_place(first + i), halves[i]);
    }
    const bool seen = (bad[0] && is_wanted(token(row(0)))) || (bad[1] && is_wanted(token(row(1))));
    if (seen && params_.overflow != nullptr) params_.overflow[tile_.rows.sequence] = 1;
    if (__any_sync(kFullWarp, seen)) {
#pragma unroll 1
      for (unsigned i = 0; i < kWords; ++i) {
        const std::uint32_t at = result_place(i);
        store_word(at, saturate_halves(load_word(at)));
      }
    }
    store();
  }

  // Where this lane's values 2 * i and the next of its part of the result go.
  __device__ std::uint32_t result_place(unsigned i) const { return place(row(i % 2), i / 2 * 8 + lane_ % 4 * 2); }

  __device__ bool is_wanted(int token) const {
    return token < tile_.rows.length && (!C::kCausal || token >= params_.prefix);
  }

  // This warp's 16 rows, once all its lanes have written them.
  __device__ void store() {
    constexpr unsigned kWords = kHeadDim / 8, kTogether = 4;
    __syncwarp();
    forget_places();
#pragma unroll
    for (unsigned first = 0; first < 16 * kWords; first += kTogether * kWarpSize) {
      uint4 value[kTogether];
#pragma unroll
      for (unsigned step = 0; step < kTogether; ++step) {
        const unsigned i = first + step * kWarpSize + lane_;
        if (i < 16 * kWords) value[step] = load_words(place(first_row() + i / kWords, i % kWords * 8));
      }
#pragma unroll
      for (unsigned step = 0; step < kTogether; ++step) {
        const unsigned i = first + step * kWarpSize + lane_, r = first_row() + i / kWords;
        if (i >= 16 * kWords || !is_wanted(token(r))) continue;
        const int y_row = query_start<C>(params_, tile_) + token(r);
        __half* y = params_.y + y_row * params_.y_stride + head(r) * kHeadDim + i % kWords * 8;
        *reinterpret_cast<uint4*>(y) = value[step];
      }
    }
    fence_async_proxy();
    release_queries();
  }

  Shared<C>& shared_;
  const Params& params_;
  const int worker_;
  unsigned thread_, lane_;
  const int token_shift_;
  const std::uint32_t q_;
  TileInfo tile_;
  Stage k_, v_;
  std::uint32_t q_parity_ = 0;
  Softmax softmax_;
  float score_[kKeys / 2];
  std::uint32_t p_[kKeys / 4];
  float out_[kHeadDim / 2];
};

template <typename C>
__global__ void __launch_bounds__(C::kThreads, 1) attention_kernel(const __grid_constant__ Params params) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) std::uint8_t memory[];
  let_next_start();
  auto& shared = *reinterpret_cast<Shared<C>*>(memory);
  const int warp = __shfl_sync(kFullWarp, static_cast<int>(threadIdx.x) / kWarpSize, 0);
  if (threadIdx.x == 0) {
    prefetch_map(&params.q);
    prefetch_map(&params.k);
    prefetch_map(&params.v);
    for (int i = 0; i < C::kWorkers; ++i) {
      barrier_init(shared_address(&shared.q_full[i]), 1);
      barrier_init(shared_address(&shared.q_empty[i]), kWarpgroup);
    }
    for (int i = 0; i < kStages; ++i) {
      barrier_init(shared_address(&shared.k_full[i]), 1);
      barrier_init(shared_address(&shared.v_full[i]), 1);
      barrier_init(shared_address(&shared.k_empty[i]), C::kWorkers * kWarpgroup / kWarpSize);
      barrier_init(shared_address(&shared.v_empty[i]), C::kWorkers * kWarpgroup / kWarpSize);
    }
    barrier_init_done();
  }
  __syncthreads();
  wait_for_inputs();

  if (warp < kWarpgroup / kWarpSize) {
    if constexpr (C::kWorkers > 1) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(C::kFetchRegisters));
    if (threadIdx.x % kWarpSize == 0) {
      if (warp == 0) {
        fetch_keys<C>(shared, params);
      } else if (warp <= C::kWorkers) {
        fetch_queries<C>(shared, params, warp - 1);
      }
    }
  } else {
    if constexpr (C::kWorkers > 1) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(C::kWorkRegisters));
    Worker<C>(shared, params, warp / (kWarpgroup / kWarpSize) - 1).run();
  }
#else
  __trap();  // built for another architecture than sm_90a
#endif
}

}  // namespace clef::cuda::sm90
