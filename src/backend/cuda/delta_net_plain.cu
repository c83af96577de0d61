// DeltaNet as its recurrence, token by token.
// Arithmetic: f32; features ascending in four interleaved sums.
// Schedule:   a block a value head of a sequence; a thread holds one column of the state.
// Bound:      latency, about a microsecond a token.
#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_common.cuh"

namespace clef::cuda {
namespace {

constexpr int kDim = kDeltaNetHeadDim;
constexpr int kSums = 4;
constexpr float kLargestHalf = 65504.0F;

__device__ float dot(const float (&column)[kDim], const float* x) {
  float sums[kSums] = {};
#pragma unroll
  for (int i = 0; i < kDim; i += kSums) {
#pragma unroll
    for (int j = 0; j < kSums; ++j) sums[j] = __fmaf_rn(column[i + j], x[i + j], sums[j]);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

__global__ void __launch_bounds__(kDim) delta_net_plain_kernel(const DeltaNetArgs args) {
  __shared__ float k_rows[2][kDim], q_rows[2][kDim];
  const int head = static_cast<int>(blockIdx.x), sequence = static_cast<int>(blockIdx.y);
  const int key_head = head * args.key_heads / args.value_heads;
  const int column = static_cast<int>(threadIdx.x);
  const float scale = 1.0F / sqrtf(static_cast<float>(kDim));
  const float rate = args.neg_exp_a_log[head], bias = args.dt_bias[head];
  float state[kDim] = {};
  bool overflowed = false;
  const int first = args.cu_seqlens[sequence], last = args.cu_seqlens[sequence + 1];
  for (int token = first; token < last; ++token) {
    const std::int64_t key_place = (std::int64_t{token} * args.key_heads + key_head) * kDim + column;
    const std::int64_t value_place = (std::int64_t{token} * args.value_heads + head) * kDim + column;
    float* k = k_rows[token % 2];
    float* q = q_rows[token % 2];
    k[column] = __half2float(args.k[key_place]);
    q[column] = __half2float(args.q[key_place]);
    __syncthreads();  // the only one: a row is written again two tokens later
    const GatePlace gate(args, sequence, first, token, head);
    const float decay = expf(rate * softplus(*gate.a + bias)), beta = logistic(*gate.b);
#pragma unroll
    for (int i = 0; i < kDim; ++i) state[i] *= decay;
    const float change = beta * (__half2float(args.v[value_place]) - dot(state, k));
#pragma unroll
    for (int i = 0; i < kDim; ++i) state[i] = __fmaf_rn(k[i], change, state[i]);
    __half y = __float2half_rn(scale * dot(state, q));
    if (args.overflow != nullptr && !(fabsf(__half2float(y)) <= kLargestHalf)) {
      overflowed = true;
      y = __float2half_rn(__hisnan(y) ? 0.0F : copysignf(kLargestHalf, __half2float(y)));
    }
    if (!gate.is_known) args.y[(gate.row * args.value_heads + head) * kDim + column] = y;
  }
  if (overflowed) args.overflow[sequence] = 1;
}

}  // namespace

cudaError_t launch_delta_net_plain(const DeltaNetArgs& args, cudaStream_t stream) {
  if (args.tokens == 0 || args.sequences == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(args.value_heads), static_cast<unsigned>(args.sequences));
  delta_net_plain_kernel<<<grid, kDim, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace clef::cuda
