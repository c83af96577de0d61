// Attention and Gated DeltaNet on the GPU: which kernel an op is given to.
#include <fmt/format.h>

#include "backend/cuda/attention.h"
#include "backend/cuda/attention_f32.h"
#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_f32.h"
#include "backend/cuda/run.h"

namespace clef::cuda {

namespace {

template <typename T>
T* data(const Tensor& t) {
  return reinterpret_cast<T*>(t.address());
}
int small(std::int64_t n) { return static_cast<int>(n); }

bool holds(bool condition, const std::string& message, Context& context) {
  if (!condition) context.check(Error{Errc::unsupported, message});
  return condition;
}

void run_f32(const Tensor& y, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& gate,
             const Tensor& cu_queries, const Tensor& cu_keys, std::int64_t head_dim, bool causal, std::int64_t prefix,
             Context& context) {
  if (!holds(head_dim <= kMostAttentionF32HeadDim, fmt::format("cuda: attention heads of {}", head_dim), context))
    return;
  AttentionF32Args args{.y = data<float>(y),
                        .q = data<const float>(q),
                        .k = data<const float>(k),
                        .v = data<const float>(v),
                        .gate = gate ? data<const float>(gate) : nullptr,
                        .y_stride = y.stride,
                        .q_stride = q.stride,
                        .kv_stride = k.stride,
                        .gate_stride = gate ? gate.stride : 0,
                        .cu_queries = data<const int>(cu_queries),
                        .cu_keys = data<const int>(cu_keys),
                        .queries = causal ? k.rows : q.rows,
                        .keys = k.rows,
                        .segments = small(cu_queries.cols - 1),
                        .heads = small(q.cols / head_dim),
                        .group = small(q.cols / k.cols),
                        .head_dim = small(head_dim),
                        .causal = causal,
                        .prefix = prefix};
  if (const std::int64_t count = attention_f32_partials(args); count > 0) {
    args.partials = context.states.get<float>(count, context);
    if (context.failed()) return;
  }
  context.check(launch_attention_f32(args, context.stream), "attention_f32");
}

}  // namespace

void run(const Attention& op, Context& context) {
  if (op.q.dtype == DType::f32) {
    return run_f32(op.y, op.q, op.k, op.v, op.q_gate, op.cu_seqlens, op.cu_seqlens, op.head_dim, true, op.prefix,
                   context);
  }
  if (!holds(op.head_dim == kAttentionHeadDim,
             fmt::format("cuda: attention heads of {} features: expected {}", op.head_dim, kAttentionHeadDim),
             context)) {
    return;
  }
  context.check(launch_attention({.q = data<const __half>(op.q),
                                  .q_stride = op.q.stride,
                                  .k = data<const __half>(op.k),
                                  .v = data<const __half>(op.v),
                                  .kv_stride = op.k.stride,
                                  .gate = data<const __half>(op.q_gate) + op.head_dim,
                                  .gate_stride = op.q_gate.stride,
                                  .gate_head_stride = 2 * op.head_dim,
                                  .y = data<__half>(op.y),
                                  .y_stride = op.y.stride,
                                  .cu_seqlens = data<const int>(op.cu_seqlens),
                                  .sequences = small(op.cu_seqlens.cols - 1),
                                  .tokens = small(op.k.rows),
                                  .prefix_tokens = small(op.prefix),
                                  .q_heads = small(op.q.cols / op.head_dim),
                                  .kv_heads = small(op.k.cols / op.head_dim)},
                                 context.stream),
                "attention");
}

void run(const CrossAttention& op, Context& context) {
  if (op.q.dtype == DType::f32) {
    return run_f32(op.y, op.q, op.k, op.v, {}, op.cu_queries, op.cu_keys, op.head_dim, false, 0, context);
  }
  // FP16 activations are the vision tower's, whose queries and keys are the same tokens.
  CHECK(op.cu_queries.buffer == op.cu_keys.buffer && op.q.rows == op.k.rows);
  context.check(launch_segment_attention({.q = data<const __half>(op.q),
                                          .q_stride = op.q.stride,
                                          .k = data<const __half>(op.k),
                                          .v = data<const __half>(op.v),
                                          .kv_stride = op.k.stride,
                                          .y = data<__half>(op.y),
                                          .y_stride = op.y.stride,
                                          .cu_segments = data<const int>(op.cu_queries),
                                          .segments = small(op.cu_queries.cols - 1),
                                          .tokens = small(op.q.rows),
                                          .heads = small(op.q.cols / op.head_dim),
                                          .head_dim = small(op.head_dim)},
                                         context.stream),
                "segment_attention");
}

void run(const ShortConv& op, Context& context) {
  const std::int64_t d = op.head_dim;
  if (!holds(d == kDeltaNetHeadDim && op.v.cols % d == 0 && op.weight.rows == kShortConvTaps,
             fmt::format("cuda: short_conv of heads of {} and {} taps: expected {} and {}", d, op.weight.rows,
                         kDeltaNetHeadDim, kShortConvTaps),
             context)) {
    return;
  }
  CHECK(op.q.stride == op.q.cols && op.k.stride == op.k.cols && op.v.stride == op.v.cols);
  const int sequences = small(op.cu_seqlens.cols - 1), tokens = small(op.q.rows);
  if (op.x.dtype == DType::f32) {
    context.check(launch_short_conv_f32({.q = data<float>(op.q),
                                         .k = data<float>(op.k),
                                         .v = data<float>(op.v),
                                         .x = data<const float>(op.x),
                                         .x_stride = op.x.stride,
                                         .weight = data<const float>(op.weight),
                                         .cu_seqlens = data<const int>(op.cu_seqlens),
                                         .sequences = sequences,
                                         .tokens = tokens,
                                         .key_heads = small(op.q.cols / d),
                                         .value_heads = small(op.v.cols / d),
                                         .prefix = op.prefix ? data<const float>(op.prefix) : nullptr,
                                         .prefix_stride = op.prefix.stride,
                                         .prefix_tokens = small(op.prefix.rows)},
                                        context.stream),
                  "short_conv_f32");
    return;
  }
  context.check(launch_short_conv({.q = data<__half>(op.q),
                                   .k = data<__half>(op.k),
                                   .v = data<__half>(op.v),
                                   .x = data<const __half>(op.x),
                                   .x_stride = op.x.stride,
                                   .weight = data<const float>(op.weight),
                                   .cu_seqlens = data<const int>(op.cu_seqlens),
                                   .sequences = sequences,
                                   .tokens = tokens,
                                   .key_heads = small(op.q.cols / d),
                                   .value_heads = small(op.v.cols / d),
                                   .prefix = op.prefix ? data<const __half>(op.prefix) : nullptr,
                                   .prefix_stride = op.prefix.stride,
                                   .prefix_tokens = small(op.prefix.rows)},
                                  context.stream),
                "short_conv");
}

void run(const DeltaNet& op, Context& context) {
  const std::int64_t d = op.head_dim;
  if (!holds(d == kDeltaNetHeadDim && op.value_dim == d,
             fmt::format("cuda: delta_net of heads of {} and {}: expected {}", d, op.value_dim, kDeltaNetHeadDim),
             context)) {
    return;
  }
  CHECK(op.q.stride == op.q.cols && op.k.stride == op.k.cols && op.v.stride == op.v.cols && op.y.stride == op.y.cols);
  const int sequences = small(op.cu_seqlens.cols - 1), tokens = small(op.q.rows);
  const int key_heads = small(op.q.cols / d), value_heads = small(op.v.cols / d);
  const bool is_f32 = op.q.dtype == DType::f32;
  const std::size_t bytes = is_f32 ? delta_net_f32_workspace(tokens, sequences, key_heads, value_heads)
                                   : delta_net_workspace(tokens, sequences, key_heads, value_heads);
  void* workspace = nullptr;
  if (bytes > 0) context.check(context.states.get(bytes, &workspace), "memory for delta_net");
  if (context.failed()) return;
  if (is_f32) {
    context.check(launch_delta_net_f32({.y = data<float>(op.y),
                                        .q = data<const float>(op.q),
                                        .k = data<const float>(op.k),
                                        .v = data<const float>(op.v),
                                        .b = data<const float>(op.b),
                                        .a = data<const float>(op.a),
                                        .ba_stride = op.b.stride,
                                        .neg_exp_a_log = data<const float>(op.neg_exp_a_log),
                                        .dt_bias = data<const float>(op.dt_bias),
                                        .cu_seqlens = data<const int>(op.cu_seqlens),
                                        .sequences = sequences,
                                        .tokens = tokens,
                                        .key_heads = key_heads,
                                        .value_heads = value_heads,
                                        .workspace = workspace,
                                        .workspace_bytes = bytes,
                                        .prefix_b = op.prefix_b ? data<const float>(op.prefix_b) : nullptr,
                                        .prefix_a = op.prefix_a ? data<const float>(op.prefix_a) : nullptr,
                                        .prefix_stride = op.prefix_b.stride,
                                        .prefix_tokens = small(op.prefix_b.rows)},
                                       context.stream),
                  "delta_net_f32");
    return;
  }
  context.check(launch_delta_net({.y = data<__half>(op.y),
                                  .q = data<const __half>(op.q),
                                  .k = data<const __half>(op.k),
                                  .v = data<const __half>(op.v),
                                  .b = data<const float>(op.b),
                                  .a = data<const float>(op.a),
                                  .ba_stride = op.b.stride,
                                  .neg_exp_a_log = data<const float>(op.neg_exp_a_log),
                                  .dt_bias = data<const float>(op.dt_bias),
                                  .cu_seqlens = data<const int>(op.cu_seqlens),
                                  .sequences = sequences,
                                  .tokens = tokens,
                                  .key_heads = key_heads,
                                  .value_heads = value_heads,
                                  .workspace = workspace,
                                  .workspace_bytes = bytes,
                                  .prefix_b = op.prefix_b ? data<const float>(op.prefix_b) : nullptr,
                                  .prefix_a = op.prefix_a ? data<const float>(op.prefix_a) : nullptr,
                                  .prefix_stride = op.prefix_b.stride,
                                  .prefix_tokens = small(op.prefix_b.rows)},
                                 context.stream),
                "delta_net");
}

}  // namespace clef::cuda
