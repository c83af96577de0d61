// Gated DeltaNet with f32 activations.
// Arithmetic: f32; the recurrence token by token, features ascending in four interleaved sums.
// Schedule:   a block a token and head (convolution), a block a value head of a sequence (recurrence), a thread a
// column. Bound:      latency, about a microsecond a token; it serves few records.
#include "backend/cuda/delta_net_f32.h"
#include "backend/cuda/lanes.cuh"

namespace clef::cuda {
namespace {

constexpr int kDim = 128;
constexpr int kSums = 4;
constexpr float kUnitEps = 1e-6F;

__global__ void __launch_bounds__(kDim) short_conv(const ShortConvF32Args args) {
  const std::int64_t token = blockIdx.x;
  const int head = blockIdx.y, feature = threadIdx.x;
  const std::int64_t channel = head * kDim + feature, channels = (2 * args.key_heads + args.value_heads) * kDim;
  const std::int64_t first = args.cu_seqlens[segment_of(args.cu_seqlens, args.sequences, token)];
  float sum = 0;
  for (int tap = 0; tap < args.taps; ++tap) {
    const std::int64_t from = token - (args.taps - 1 - tap);
    if (from >= first) sum = fmaf(args.weight[tap * channels + channel], args.x[from * args.x_stride + channel], sum);
  }
  float value = silu(sum);
  if (head < 2 * args.key_heads) value *= 1.0F / sqrtf(block_sum<kDim>(value * value) + kUnitEps);
  if (head < args.key_heads) {
    args.q[token * args.key_heads * kDim + channel] = value;
  } else if (head < 2 * args.key_heads) {
    args.k[token * args.key_heads * kDim + channel - args.key_heads * kDim] = value;
  } else {
    args.v[token * args.value_heads * kDim + channel - 2 * args.key_heads * kDim] = value;
  }
}

__device__ float dot(const float (&column)[kDim], const float* x) {
  float sums[kSums] = {};
#pragma unroll
  for (int i = 0; i < kDim; i += kSums) {
#pragma unroll
    for (int j = 0; j < kSums; ++j) sums[j] = fmaf(column[i + j], x[i + j], sums[j]);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

__device__ float softplus(float x) { return x > 20.0F ? x : log1pf(expf(x)); }  // PyTorch's threshold

__global__ void __launch_bounds__(kDim) delta_net(const DeltaNetF32Args args) {
  __shared__ float k_rows[2][kDim], q_rows[2][kDim];
  const int head = blockIdx.x, sequence = blockIdx.y, column = threadIdx.x;
  const int key_head = head * args.key_heads / args.value_heads;
  const float scale = 1.0F / sqrtf(static_cast<float>(kDim));
  float state[kDim] = {};
  for (int token = args.cu_seqlens[sequence]; token < args.cu_seqlens[sequence + 1]; ++token) {
    const std::int64_t key_at = (std::int64_t{token} * args.key_heads + key_head) * kDim + column;
    const std::int64_t value_at = (std::int64_t{token} * args.value_heads + head) * kDim + column;
    float *k = k_rows[token % 2], *q = q_rows[token % 2];
    k[column] = args.k[key_at];
    q[column] = args.q[key_at];
    __syncthreads();  // the only one: a row is written again two tokens later
    const float decay =
        expf(args.neg_exp_a_log[head] * softplus(args.a[token * args.ba_stride + head] + args.dt_bias[head]));
    const float beta = sigmoid(args.b[token * args.ba_stride + head]);
#pragma unroll
    for (int i = 0; i < kDim; ++i) state[i] *= decay;
    const float change = beta * (args.v[value_at] - dot(state, k));
#pragma unroll
    for (int i = 0; i < kDim; ++i) state[i] = fmaf(k[i], change, state[i]);
    args.y[value_at] = scale * dot(state, q);
  }
}

}  // namespace

cudaError_t launch_short_conv_f32(const ShortConvF32Args& args, cudaStream_t stream) {
  if (args.tokens == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(args.tokens), static_cast<unsigned>(2 * args.key_heads + args.value_heads));
  short_conv<<<grid, kDim, 0, stream>>>(args);
  return cudaGetLastError();
}

cudaError_t launch_delta_net_f32(const DeltaNetF32Args& args, cudaStream_t stream) {
  if (args.tokens == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(args.value_heads), static_cast<unsigned>(args.sequences));
  delta_net<<<grid, kDim, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace clef::cuda
