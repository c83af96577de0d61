// Norms and rotary on the CPU: rows are shared out.
#include "backend/cpu/run.h"

namespace clef::cpu {

void run(const RmsNorm& op, Context& context) {
  context.for_rows(op.y.rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t r = first; r < first + count; ++r) {
      context.kernels.rms_norm_row(op.x.row<const float>(r), op.gain.row<const float>(0), op.x.cols, op.eps,
                                   op.y.row<float>(r));
    }
  });
}

void run(const GatedRmsNorm& op, Context& context) {
  const std::int64_t n = op.gain.cols;
  context.for_rows(op.y.rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t r = first; r < first + count; ++r) {
      for (std::int64_t c = 0; c < op.x.cols; c += n) {
        context.kernels.gated_rms_norm_row(op.x.row<const float>(r) + c, op.z.row<const float>(r) + c,
                                           op.gain.row<const float>(0), n, op.eps, op.y.row<float>(r) + c);
      }
    }
  });
}

void run(const LayerNorm& op, Context& context) {
  context.for_rows(op.y.rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t r = first; r < first + count; ++r) {
      context.kernels.layer_norm_row(op.x.row<const float>(r), op.gain.row<const float>(0), op.bias.row<const float>(0),
                                     op.x.cols, op.eps, op.y.row<float>(r));
    }
  });
}

void run(const QkNormRope& op, Context& context) {
  const std::int64_t d = op.q_gain.cols, pairs = op.cos.cols;
  context.for_rows(op.q.rows, [&](std::int64_t first, std::int64_t count) {
    std::vector<float> mixed(static_cast<std::size_t>(2 * pairs));  // a token's cosines and sines, of three positions
    for (std::int64_t t = first; t < first + count; ++t) {
      const std::int32_t* positions = op.positions.row<const std::int32_t>(t);
      HeadNormRope head{};
      head.cos = op.cos.row<const float>(positions[0]);
      head.sin = op.sin.row<const float>(positions[0]);
      if (positions[1] != positions[0] || positions[2] != positions[0]) {
        float *cos = mixed.data(), *sin = cos + pairs;
        for (std::int64_t i = 0; i < pairs; ++i) {
          const std::int32_t position =
              positions[static_cast<std::size_t>(rope_axis(i, op.height_pairs, op.width_pairs))];
          cos[i] = op.cos.row<const float>(position)[i];
          sin[i] = op.sin.row<const float>(position)[i];
        }
        head.cos = cos;
        head.sin = sin;
      }
      head.head_dim = d;
      head.pairs = op.cos.cols;
      head.eps = op.eps;
      head.gain = op.q_gain.row<const float>(0);
      for (std::int64_t c = 0; c < op.q.cols; c += d) {
        head.x = op.q_gate.row<const float>(t) + 2 * c;
        head.y = op.q.row<float>(t) + c;
        context.kernels.head_norm_rope(head);
      }
      head.gain = op.k_gain.row<const float>(0);
      for (std::int64_t c = 0; c < op.k.cols; c += d) {
        head.x = op.k_raw.row<const float>(t) + c;
        head.y = op.k.row<float>(t) + c;
        context.kernels.head_norm_rope(head);
      }
    }
  });
}

}  // namespace clef::cpu
