// The CPU's inner kernels: one table an instruction set, chosen once at start. Everything here works on plain memory;
// threads and tensors stay outside, in ../*.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace clef::cpu {

enum class WeightType : std::uint8_t { bf16, f16, f32 };
enum class Epilogue : std::uint8_t { store, add, swiglu, gelu_erf, gelu_tanh };

// Sums over the depth restart after this many and the partial sums are added in order; another would change the bits.
// Chosen for accuracy (the error grows with the longer of block and block count) and so that a panel fits the L1 cache.
inline constexpr std::int64_t kDepthBlock = 256;

// A block of a matrix product: some rows, some column groups of 16, the whole depth.
struct LinearBlock {
  const float* x;  // first row of the block
  std::int64_t x_stride, rows, depth;
  const void* w;     // the whole weight, [n, depth], contiguous
  const void* w_up;  // swiglu only: the second weight; w is the gate
  WeightType weight_type;
  std::int64_t n;             // columns of the output
  std::int64_t first_column;  // a multiple of 16
  std::int64_t num_columns;   // not beyond n
  Epilogue epilogue;
  const float* bias;  // [n] or null
  float* y;           // first row of the block, column 0
  std::int64_t y_stride;
  float* scratch;  // linear_scratch(rows, num_columns, swiglu) floats
};

struct AttentionBlock {
  const float* q;  // first query's row at this key head's first query head
  std::int64_t q_stride;
  std::int64_t queries;  // of each head; causal: at most kAttentionBlock, from one block
  std::int64_t heads;    // query heads that share the key head
  const float *k, *v;    // first key's row at the key head
  std::int64_t kv_stride;
  std::int64_t keys;         // of the sequence that any query here may see
  std::int64_t first_query;  // causal: the first query's place in the sequence; -1: every query sees all keys
  std::int64_t head_dim;
  float scale;
  const float* gate;  // like q, or null
  std::int64_t gate_stride, gate_head_stride;
  float* y;  // like q
  std::int64_t y_stride;
  float* scratch;  // attention_scratch(queries, heads, head_dim) floats
};

struct DeltaNetHead {
  const float *q, *k;  // first token's row at the key head
  std::int64_t qk_stride;
  const float* v;  // first token's row at the value head
  std::int64_t v_stride;
  const float *b, *a;  // first new token's row at the value head
  std::int64_t ba_stride;
  std::int64_t known;              // so many first tokens have gates of their own and no y; the others are new
  const float *known_b, *known_a;  // first of their rows at the value head
  std::int64_t known_ba_stride;
  float neg_exp_a_log, dt_bias;
  std::int64_t tokens, head_dim, value_dim;
  float* y;  // of the first new token
  std::int64_t y_stride;
  float* scratch;  // delta_net_scratch(head_dim, value_dim) floats
};

struct ShortConvToken {
  const float* x;  // the token's row; earlier rows lie x_stride before
  std::int64_t x_stride;
  std::int64_t history;  // earlier tokens of the same sequence, at most taps - 1
  const float* weight;   // [taps, channels]
  std::int64_t taps, channels, key_width, head_dim;
  float *q, *k, *v;
};

struct HeadNormRope {
  const float* x;
  const float* gain;
  const float *cos, *sin;  // [pairs]
  std::int64_t head_dim, pairs;
  float eps;
  float* y;
};

struct Kernels {
  const char* name;
  std::size_t (*linear_scratch)(std::int64_t rows, std::int64_t columns, bool swiglu);
  void (*linear_block)(const LinearBlock&);
  std::size_t (*attention_scratch)(std::int64_t queries, std::int64_t heads, std::int64_t head_dim);
  void (*attention_block)(const AttentionBlock&);
  std::size_t (*delta_net_scratch)(std::int64_t head_dim, std::int64_t value_dim);
  void (*delta_net_head)(const DeltaNetHead&);
  void (*short_conv_token)(const ShortConvToken&);
  void (*head_norm_rope)(const HeadNormRope&);
  void (*rms_norm_row)(const float* x, const float* gain, std::int64_t n, float eps, float* y);
  void (*gated_rms_norm_row)(const float* x, const float* z, const float* gain, std::int64_t n, float eps, float* y);
  void (*layer_norm_row)(const float* x, const float* gain, const float* bias, std::int64_t n, float eps, float* y);
  void (*widen_row)(const void* x, WeightType type, std::int64_t n, float* y);
  void (*add_row)(const void* x, WeightType type, std::int64_t n, float* y);                      // y += x
  void (*add_scaled_row)(const void* x, WeightType type, float scale, std::int64_t n, float* y);  // y += scale * x
  void (*rope_head)(float* x, const float* cos, const float* sin, std::int64_t pairs);
  void (*scale_row)(float scale, std::int64_t n, float* y);  // y *= scale
  // The machine's fma rate: runs `rounds` times a block of independent fma on registers and returns the floating point
  // operations done, so that a benchmark can divide by the time it took.
  double (*fma_peak)(std::int64_t rounds, float* sink);
};

extern const Kernels kKernelsPlain;
#if defined(__x86_64__)
extern const Kernels kKernelsAvx2;
extern const Kernels kKernelsAvx512;
#endif

// The best table for this machine.
const Kernels& best_kernels();
// By name ("plain", "avx2", "avx512"); null when the machine or the build lacks it.
const Kernels* find_kernels(const char* name);

}  // namespace clef::cpu
