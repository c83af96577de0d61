// DeltaNet with f32 activations: two passes over chunks where the device and the shape allow it, else the recurrence.
// Arithmetic: the recurrence, in f32, token by token, features ascending in four interleaved sums.
// Schedule:   of the recurrence: a block a value head of a sequence; a thread holds one column of the state.
// Bound:      latency, about a microsecond a token.
#include "backend/cuda/delta_net_f32.h"

#include "backend/cuda/delta_net_common.cuh"
#include "backend/cuda/delta_net_f32_tile.cuh"

namespace clef::cuda {
namespace {

constexpr int kDim = kDeltaNetHeadDim;
constexpr int kSums = 4;

__device__ float dot(const float (&column)[kDim], const float* x) {
  float sums[kSums] = {};
#pragma unroll
  for (int i = 0; i < kDim; i += kSums) {
#pragma unroll
    for (int j = 0; j < kSums; ++j) sums[j] = __fmaf_rn(column[i + j], x[i + j], sums[j]);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

__global__ void __launch_bounds__(kDim) delta_net_f32_plain_kernel(const DeltaNetF32Args args) {
  __shared__ float k_rows[2][kDim], q_rows[2][kDim];
  const int head = static_cast<int>(blockIdx.x), sequence = static_cast<int>(blockIdx.y);
  const int column = static_cast<int>(threadIdx.x);
  const int key_head = head * args.key_heads / args.value_heads;
  const float scale = 1.0F / sqrtf(static_cast<float>(kDim));
  const float rate = args.neg_exp_a_log[head], bias = args.dt_bias[head];
  float state[kDim] = {};
  const int first = args.cu_seqlens[sequence];
  for (int token = first; token < args.cu_seqlens[sequence + 1]; ++token) {
    const std::int64_t key_at = (std::int64_t{token} * args.key_heads + key_head) * kDim + column;
    const std::int64_t value_at = (std::int64_t{token} * args.value_heads + head) * kDim + column;
    float *k = k_rows[token % 2], *q = q_rows[token % 2];
    k[column] = args.k[key_at];
    q[column] = args.q[key_at];
    __syncthreads();  // the only one: a row is written again two tokens later
    const GatePlace gate(args, sequence, first, token, head);
    const float decay = expf(rate * softplus(*gate.a + bias)), beta = logistic(*gate.b);
#pragma unroll
    for (int i = 0; i < kDim; ++i) state[i] *= decay;
    const float change = beta * (args.v[value_at] - dot(state, k));
#pragma unroll
    for (int i = 0; i < kDim; ++i) state[i] = __fmaf_rn(k[i], change, state[i]);
    const float y = scale * dot(state, q);
    if (!gate.is_known) args.y[(gate.row * args.value_heads + head) * kDim + column] = y;
  }
}

}  // namespace

std::size_t delta_net_f32_workspace(int tokens, int sequences, int key_heads, int value_heads) {
  return static_cast<std::size_t>(slot_count(tokens, sequences)) *
         (static_cast<std::size_t>(key_heads) * sizeof(KeyPlanes) +
          static_cast<std::size_t>(value_heads) * sizeof(ChunkF32Record));
}

cudaError_t launch_delta_net_f32_plain(const DeltaNetF32Args& args, cudaStream_t stream) {
  if (args.tokens == 0 || args.sequences == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(args.value_heads), static_cast<unsigned>(args.sequences));
  delta_net_f32_plain_kernel<<<grid, kDim, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t launch_delta_net_f32(const DeltaNetF32Args& args, cudaStream_t stream) {
  if (args.tokens == 0 || args.sequences == 0) return cudaSuccess;
  int device = 0, major = 0;
  if (const cudaError_t status = cudaGetDevice(&device); status != cudaSuccess) return status;
  if (const cudaError_t status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
      status != cudaSuccess) {
    return status;
  }
  // The passes need Hopper's warpgroup products, which no other generation has.
  if (major != 9 || args.value_heads % args.key_heads != 0) return launch_delta_net_f32_plain(args, stream);
  if (args.workspace_bytes < delta_net_f32_workspace(args.tokens, args.sequences, args.key_heads, args.value_heads)) {
    return cudaErrorInvalidValue;
  }
  if (const cudaError_t status = launch_delta_net_f32_prepare(args, stream); status != cudaSuccess) return status;
  return launch_delta_net_f32_scan(args, stream);
}

}  // namespace clef::cuda
