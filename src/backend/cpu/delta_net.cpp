// Gated DeltaNet on the CPU: the convolution by tokens, the recurrence by value heads of sequences.
#include <algorithm>

#include "backend/cpu/run.h"

namespace clef::cpu {

static_assert(kDeltaNetChunk == 64, "kernels/delta_net.h is written for this chunk");

void run(const ShortConv& op, Context& context) {
  const auto* cu_seqlens = op.cu_seqlens.row<const std::int32_t>(0);
  const std::int64_t known = op.prefix.rows;
  context.for_rows(op.q.rows, [&](std::int64_t first, std::int64_t count) {
    std::vector<float> window;
    for (std::int64_t t = first; t < first + count; ++t) {
      const std::int64_t s = sequence_of(op.cu_seqlens, t), place = t - cu_seqlens[s];
      ShortConvToken token{};
      token.taps = op.weight.rows;
      token.history = std::min(place, token.taps - 1);
      if (place - token.history >= known) {
        token.x = op.x.row<const float>(t - (s + 1) * known);
        token.x_stride = op.x.stride;
      } else if (place < known) {
        token.x = op.prefix.row<const float>(place);
        token.x_stride = op.prefix.stride;
      } else {  // the last of the known rows and the first of the new ones
        window.clear();
        for (std::int64_t p = place - token.history; p <= place; ++p) {
          const float* row =
              p < known ? op.prefix.row<const float>(p) : op.x.row<const float>(cu_seqlens[s] + p - (s + 1) * known);
          window.insert(window.end(), row, row + op.x.cols);
        }
        token.x = window.data() + token.history * op.x.cols;
        token.x_stride = op.x.cols;
      }
      token.weight = op.weight.row<const float>(0);
      token.channels = op.x.cols;
      token.key_width = op.q.cols;
      token.head_dim = op.head_dim;
      token.q = op.q.row<float>(t);
      token.k = op.k.row<float>(t);
      token.v = op.v.row<float>(t);
      context.kernels.short_conv_token(token);
    }
  });
}

void run(const DeltaNet& op, Context& context) {
  const std::int64_t d = op.head_dim, n = op.value_dim, heads = op.v.cols / n, group = heads / (op.q.cols / d);
  const std::int64_t sequences = op.cu_seqlens.cols - 1;
  const auto* cu_seqlens = op.cu_seqlens.row<const std::int32_t>(0);
  std::vector<std::int64_t> longest_first(static_cast<std::size_t>(sequences));
  for (std::int64_t s = 0; s < sequences; ++s) longest_first[static_cast<std::size_t>(s)] = s;
  std::stable_sort(longest_first.begin(), longest_first.end(), [&](std::int64_t a, std::int64_t b) {
    return cu_seqlens[a + 1] - cu_seqlens[a] > cu_seqlens[b + 1] - cu_seqlens[b];
  });
  context.pool.for_each(sequences * heads, [&](std::int64_t index, int thread) {
    const std::int64_t s = longest_first[static_cast<std::size_t>(index / heads)], h = index % heads;
    const std::int64_t first = cu_seqlens[s], known = op.prefix_b.rows, first_new = first - s * known;
    DeltaNetHead head{};
    head.tokens = cu_seqlens[s + 1] - first;
    if (head.tokens == 0) return;
    CHECK(op.q.stride == op.k.stride && op.b.stride == op.a.stride && op.prefix_b.stride == op.prefix_a.stride);
    head.q = op.q.row<const float>(first) + h / group * d;
    head.k = op.k.row<const float>(first) + h / group * d;
    head.qk_stride = op.q.stride;
    head.v = op.v.row<const float>(first) + h * n;
    head.v_stride = op.v.stride;
    head.b = op.b.row<const float>(first_new) + h;
    head.a = op.a.row<const float>(first_new) + h;
    head.ba_stride = op.b.stride;
    head.known = known;
    if (known > 0) {
      head.known_b = op.prefix_b.row<const float>(0) + h;
      head.known_a = op.prefix_a.row<const float>(0) + h;
      head.known_ba_stride = op.prefix_b.stride;
    }
    head.neg_exp_a_log = op.neg_exp_a_log.row<const float>(0)[h];
    head.dt_bias = op.dt_bias.row<const float>(0)[h];
    head.head_dim = d;
    head.value_dim = n;
    head.y = op.y.row<float>(first_new) + h * n;
    head.y_stride = op.y.stride;
    head.scratch = context.scratch[static_cast<std::size_t>(thread)].floats(context.kernels.delta_net_scratch(d, n));
    context.kernels.delta_net_head(head);
  });
}

}  // namespace clef::cpu
