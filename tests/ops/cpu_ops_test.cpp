// Each op on the CPU, with every kernel table this machine can run and one and three threads, against its definition;
// and all of them against each other, bit by bit.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/kernels/kernels.h"
#include "ops/op.h"
#include "support/op_bench.h"

namespace clef {
namespace {

using test::TensorMaker;

struct Made {
  Op op;
  Tensor y;
  std::vector<Tensor> more = {};  // further outputs
};
using Make = std::function<Made(TensorMaker&)>;

std::vector<float> outputs_of(const Made& made) {
  std::vector<float> values;
  std::vector<Tensor> tensors = made.more;
  tensors.insert(tensors.begin(), made.y);
  for (const Tensor& t : tensors) {
    for (std::int64_t r = 0; r < t.rows; ++r) values.insert(values.end(), t.row<float>(r), t.row<float>(r) + t.cols);
  }
  return values;
}

// `tolerance` is relative to the largest magnitude of the definition's output.
void check(const Make& make, double tolerance) {
  std::vector<float> expected, first;
  {
    const auto device = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
    TensorMaker maker(*device, 7);
    const Made made = make(maker);
    ASSERT_TRUE(is_valid(made.op));
    define_op(made.op);
    expected = outputs_of(made);
  }
  double magnitude = 0;
  for (const float value : expected) magnitude = std::max(magnitude, std::abs(static_cast<double>(value)));
  for (const char* kernels : {"plain", "avx2", "avx512"}) {
    if (cpu::find_kernels(kernels) == nullptr) {
      std::printf("not checked here: this machine has no %s\n", kernels);
      continue;
    }
    for (const int threads : {1, 3}) {
      const auto device = std::move(open_cpu_device({.num_threads = threads, .kernels = kernels})).value();
      TensorMaker maker(*device, 7);
      const Made made = make(maker);
      const auto pass = device->begin();
      pass->run(made.op);
      ASSERT_TRUE(pass->finish());
      const auto actual = outputs_of(made);
      ASSERT_EQ(actual.size(), expected.size());
      double worst = 0;
      for (std::size_t i = 0; i < actual.size(); ++i) {
        ASSERT_TRUE(std::isfinite(actual[i])) << kernels << " element " << i;
        worst = std::max(worst, std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i])));
      }
      EXPECT_LE(worst, tolerance * magnitude) << kernels << ", " << threads << " threads";
      if (first.empty()) first = actual;
      EXPECT_EQ(std::memcmp(first.data(), actual.data(), actual.size() * sizeof(float)), 0)
          << kernels << ", " << threads << " threads: other bits";
    }
  }
}

// Tolerances: 2^-24 is half an ulp; a sum of n terms in blocks of 256 grows it by about sqrt(256) at worst here.
constexpr double kFewUlps = 1e-6;
constexpr double kLongSums = 3e-6;

TEST(CpuOps, EmbedWidens) {
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(5, 40);
        return Made{Embed{.y = y, .ids = m.ints({3, 0, 6, 6, 1}), .table = m.random_bf16(7, 40)}, y};
      },
      0);
}

TEST(CpuOps, TakeRowsOfAMatrix) {
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(5, 50).col_range(3, 40);
        return Made{TakeRows{.y = y, .ids = m.ints({3, 0, 6, 6, 1}), .table = m.random(7, 40)}, y};
      },
      0);
}

TEST(CpuOps, RmsNorm) {
  for (const std::int64_t n : {16, 40, 256, 320, 1000}) {
    check(
        [n](TensorMaker& m) {
          const Tensor y = m.empty(19, n);
          return Made{RmsNorm{.y = y, .x = m.random(19, n, 3), .gain = m.random(1, n), .eps = 1e-6F}, y};
        },
        kFewUlps);
  }
}

TEST(CpuOps, GatedRmsNorm) {
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(21, 3 * 128);
        return Made{GatedRmsNorm{.y = y,
                                 .x = m.random(21, 384, 0.01F),
                                 .z = m.random(21, 384, 4),
                                 .gain = m.random(1, 128),
                                 .eps = 1e-6F},
                    y};
      },
      kFewUlps);
}

TEST(CpuOps, LayerNorm) {
  for (const std::int64_t n : {24, 96, 128, 1000}) {
    check(
        [n](TensorMaker& m) {
          const Tensor y = m.empty(18, n);
          return Made{
              LayerNorm{
                  .y = y, .x = m.random(18, n, 2, 1), .gain = m.random(1, n), .bias = m.random(1, n), .eps = 1e-5F},
              y};
        },
        kFewUlps);
  }
}

TEST(CpuOps, LinearOfRaggedSizes) {
  struct Size {
    std::int64_t rows, n, k;
  };
  for (const Size s : {Size{1, 1, 1}, {1, 33, 17}, {15, 300, 256}, {29, 4, 320}, {57, 70, 1000}, {530, 20, 40}}) {
    check(
        [s](TensorMaker& m) {
          const Tensor y = m.empty(s.rows, s.n);
          return Made{
              Linear{.y = y, .x = m.random(s.rows, s.k), .w = m.random_bf16(s.n, s.k), .bias = m.random(1, s.n)}, y};
        },
        kLongSums);
  }
}

TEST(CpuOps, LinearWritesItsColumnsAlone) {
  check(
      [](TensorMaker& m) {
        const Tensor whole = m.random(9, 100), y = whole.col_range(37, 20);
        return Made{Linear{.y = y, .x = m.random(9, 64), .w = m.random_bf16(20, 64), .bias = {}}, whole};
      },
      kLongSums);
}

TEST(CpuOps, LinearWithOtherWeightTypes) {
  for (const DType dtype : {DType::f32, DType::f16}) {
    check(
        [dtype](TensorMaker& m) {
          const Tensor y = m.empty(17, 50);
          Tensor w = m.random(50, 300);
          if (dtype == DType::f16) {
            w = m.empty(50, 300, DType::f16);
            for (std::int64_t i = 0; i < 50 * 300; ++i)
              w.row<std::uint16_t>(0)[i] = static_cast<std::uint16_t>(i * 7 % 0x7bff);
            for (std::int64_t i = 0; i < 50 * 300; ++i) w.row<std::uint16_t>(0)[i] &= 0xbdff;  // below 2 in magnitude
          }
          return Made{Linear{.y = y, .x = m.random(17, 300), .w = w, .bias = {}}, y};
        },
        kLongSums);
  }
}

TEST(CpuOps, LinearAdd) {
  check(
      [](TensorMaker& m) {
        const Tensor y = m.random(31, 45);
        return Made{LinearAdd{.y = y, .x = m.random(31, 513), .w = m.random_bf16(45, 513), .bias = m.random(1, 45)}, y};
      },
      kLongSums);
}

TEST(CpuOps, LinearSwiglu) {
  for (const std::int64_t n : {5, 16, 31, 272}) {
    check(
        [n](TensorMaker& m) {
          const Tensor y = m.empty(20, n);
          return Made{LinearSwiglu{.y = y,
                                   .x = m.random(20, 300),
                                   .gate = m.random_bf16(n, 300, 0.2F),
                                   .up = m.random_bf16(n, 300, 0.2F)},
                      y};
        },
        kLongSums);
  }
}

TEST(CpuOps, ProjectionsBesideTheirGates) {
  check(
      [](TensorMaker& m) {
        const Tensor all = m.empty(20, 48 + 31 + 5 + 7);
        return Made{Projections{.y = all.col_range(0, 79),
                                .x = m.random(20, 300),
                                .first = m.random_bf16(48, 300, 0.2F),
                                .second = m.random_bf16(31, 300, 0.2F),
                                .third = {},
                                .gates = all.col_range(79, 12),
                                .gate_first = m.random_bf16(5, 300, 0.2F),
                                .gate_second = m.random_bf16(7, 300, 0.2F)},
                    all};
      },
      kLongSums);
}

TEST(CpuOps, ProjectionsWithABias) {
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(20, 79);
        return Made{Projections{.y = y,
                                .x = m.random(20, 300),
                                .first = m.random_bf16(48, 300, 0.2F),
                                .second = m.random_bf16(31, 300, 0.2F),
                                .third = {},
                                .bias = m.random(1, 79)},
                    y};
      },
      kLongSums);
}

TEST(CpuOps, LinearGelu) {
  for (const Gelu gelu : {Gelu::erf, Gelu::tanh}) {
    check(
        [gelu](TensorMaker& m) {
          const Tensor y = m.empty(20, 50);
          return Made{LinearGelu{.y = y,
                                 .x = m.random(20, 100),
                                 .w = m.random_bf16(50, 100, 0.3F),
                                 .bias = m.random(1, 50),
                                 .gelu = gelu},
                      y};
        },
        kLongSums);
  }
}

TEST(CpuOps, QkNormRope) {
  check(
      [](TensorMaker& m) {
        const Tensor q = m.empty(7, 4 * 256), k = m.empty(7, 2 * 256), cos = m.empty(9, 32), sin = m.empty(9, 32);
        for (std::int64_t i = 0; i < 9 * 32; ++i) {
          cos.row<float>(0)[i] = std::cos(static_cast<float>(i));
          sin.row<float>(0)[i] = std::sin(static_cast<float>(i));
        }
        return Made{QkNormRope{.q = q,
                               .k = k,
                               .q_gate = m.random(7, 8 * 256),
                               .k_raw = m.random(7, 2 * 256),
                               .q_gain = m.random(1, 256),
                               .k_gain = m.random(1, 256),
                               .cos = cos,
                               .sin = sin,
                               .positions = m.ints({0, 0, 0, 3, 4, 5, 8, 1, 2, 7, 7, 7, 2, 8, 0, 1, 1, 6, 5, 5, 5}, 3),
                               .height_pairs = 11,
                               .width_pairs = 10,
                               .eps = 1e-6F},
                    q,
                    {k}};
      },
      kFewUlps);
}

TEST(CpuOps, AttentionOverPackedSequences) {
  check(
      [](TensorMaker& m) {
        const std::int64_t tokens = 1 + 64 + 65 + 150;
        const Tensor y = m.empty(tokens, 6 * 32);
        return Made{Attention{.y = y,
                              .q = m.random(tokens, 6 * 32, 4),
                              .k = m.random(tokens, 2 * 32, 4),
                              .v = m.random(tokens, 2 * 32),
                              .q_gate = m.random(tokens, 12 * 32),
                              .cu_seqlens = m.ints({0, 1, 65, 130, 280}),
                              .head_dim = 32},
                    y};
      },
      kLongSums);
}

TEST(CpuOps, AttentionWithALargeHead) {
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(70, 2 * 256);
        return Made{Attention{.y = y,
                              .q = m.random(70, 512),
                              .k = m.random(70, 256),
                              .v = m.random(70, 256),
                              .q_gate = m.random(70, 1024),
                              .cu_seqlens = m.ints({0, 70}),
                              .head_dim = 256},
                    y};
      },
      kLongSums);
}

TEST(CpuOps, CrossAttention) {
  for (const std::int64_t d : {16, 64, 72}) {
    check(
        [d](TensorMaker& m) {
          const Tensor y = m.empty(70, 2 * d);
          return Made{CrossAttention{.y = y,
                                     .q = m.random(70, 2 * d, 3),
                                     .k = m.random(200, 2 * d, 3),
                                     .v = m.random(200, 2 * d),
                                     .cu_queries = m.ints({0, 2, 70}),
                                     .cu_keys = m.ints({0, 65, 200}),
                                     .head_dim = d},
                      y};
        },
        kLongSums);
  }
}

TEST(CpuOps, ShortConv) {
  check(
      [](TensorMaker& m) {
        const Tensor q = m.empty(40, 2 * 32), k = m.empty(40, 2 * 32), v = m.empty(40, 96);
        return Made{ShortConv{.q = q,
                              .k = k,
                              .v = v,
                              .x = m.random(40, 224, 2),
                              .weight = m.random(4, 224),
                              .cu_seqlens = m.ints({0, 1, 3, 40}),
                              .head_dim = 32},
                    q,
                    {k, v}};
      },
      kFewUlps);
}

TEST(CpuOps, DeltaNetOverPackedSequences) {
  struct Size {
    std::int64_t head_dim, value_dim;
  };
  for (const Size s : {Size{128, 128}, {32, 48}}) {
    check(
        [s](TensorMaker& m) {
          const std::int64_t tokens = 1 + 63 + 64 + 65 + 200;
          const Tensor y = m.empty(tokens, 6 * s.value_dim);
          const auto unit = [&](float scale) {
            const Tensor t = m.random(tokens, 2 * s.head_dim);
            for (std::int64_t r = 0; r < tokens; ++r) {
              for (std::int64_t h = 0; h < 2; ++h) {
                float* x = t.row<float>(r) + h * s.head_dim;
                float squares = 0;
                for (std::int64_t c = 0; c < s.head_dim; ++c) squares += x[c] * x[c];
                for (std::int64_t c = 0; c < s.head_dim; ++c) x[c] *= scale / std::sqrt(squares);
              }
            }
            return t;
          };
          return Made{DeltaNet{.y = y,
                               .q = unit(0.1F),
                               .k = unit(1),
                               .v = m.random(tokens, 6 * s.value_dim),
                               .b = m.random(tokens, 6, 3),
                               .a = m.random(tokens, 6, 12),
                               .neg_exp_a_log = m.random(1, 6, 0.5F, -0.6F),
                               .dt_bias = m.random(1, 6, 9),
                               .cu_seqlens = m.ints({0, 1, 64, 128, 193, 393}),
                               .head_dim = s.head_dim,
                               .value_dim = s.value_dim},
                      y};
        },
        kLongSums);
  }
}

// The first tokens of every sequence are known: fewer than the taps reach, and more than a chunk and a block of keys.
TEST(CpuOps, KnownPrefixes) {
  for (const std::int64_t known : {2, 70}) {
    const test::BehindKnownTokens sequences{known};
    const std::int64_t tokens = sequences.tokens(), fresh = sequences.fresh();
    check(
        [&](TensorMaker& m) {
          const Tensor q = m.empty(tokens, 64), k = m.empty(tokens, 64), v = m.empty(tokens, 96);
          return Made{ShortConv{.q = q,
                                .k = k,
                                .v = v,
                                .x = m.random(fresh, 224, 2),
                                .weight = m.random(4, 224),
                                .cu_seqlens = sequences.cu_seqlens(m),
                                .head_dim = 32,
                                .prefix = m.random(known, 224, 2)},
                      q,
                      {k, v}};
        },
        kFewUlps);
    check(
        [&](TensorMaker& m) {
          const Tensor y = m.empty(fresh, 96), ba = m.random(fresh, 4, 2), known_ba = m.random(known, 4, 2);
          return Made{DeltaNet{.y = y,
                               .q = m.random(tokens, 32, 0.1F),
                               .k = m.random(tokens, 32, 0.3F),
                               .v = m.random(tokens, 96),
                               .b = ba.col_range(0, 2),
                               .a = ba.col_range(2, 2),
                               .neg_exp_a_log = m.random(1, 2, 0.5F, -0.6F),
                               .dt_bias = m.random(1, 2),
                               .cu_seqlens = sequences.cu_seqlens(m),
                               .head_dim = 32,
                               .value_dim = 48,
                               .prefix_b = known_ba.col_range(0, 2),
                               .prefix_a = known_ba.col_range(2, 2)},
                      y};
        },
        kLongSums);
    check(
        [&](TensorMaker& m) {
          const Tensor y = m.empty(fresh, 6 * 32), kv = m.random(tokens, 4 * 32, 4);
          return Made{Attention{.y = y,
                                .q = m.random(fresh, 6 * 32, 4),
                                .k = kv.col_range(0, 64),
                                .v = kv.col_range(64, 64),
                                .q_gate = m.random(fresh, 12 * 32),
                                .cu_seqlens = sequences.cu_seqlens(m),
                                .head_dim = 32,
                                .prefix = known},
                      y};
        },
        kLongSums);
    check(
        [&](TensorMaker& m) {
          const Tensor y = m.empty(tokens, 40);
          return Made{PrependRows{.y = y,
                                  .x = m.random(fresh, 80).col_range(8, 40),
                                  .prefix = m.random(known, 40),
                                  .cu_seqlens = sequences.cu_seqlens(m)},
                      y};
        },
        0);
  }
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(9, 40);
        return Made{PrependRows{.y = y, .x = m.random(9, 40), .prefix = {}, .cu_seqlens = m.ints({0, 9})}, y};
      },
      0);
}

TEST(CpuOps, DeltaNetKeepsStateOverManyChunksWithoutDecay) {
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(300, 128), k = m.random(300, 128, 0.15F);
        return Made{DeltaNet{.y = y,
                             .q = m.random(300, 128, 0.1F),
                             .k = k,
                             .v = m.random(300, 128),
                             .b = m.random(300, 1),
                             .a = m.random(300, 1, 1, -8),
                             .neg_exp_a_log = m.random(1, 1, 0, -1),
                             .dt_bias = m.random(1, 1),
                             .cu_seqlens = m.ints({0, 300}),
                             .head_dim = 128,
                             .value_dim = 128},
                    y};
      },
      kLongSums);
}

TEST(CpuOps, Pooling) {
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(3, 40);
        return Made{SpanMean{.y = y, .x = m.random(30, 40), .spans = m.ints({0, 1, 5, 20, 29, 1}, 2)}, y};
      },
      kFewUlps);
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(2, 40);
        return Made{EmbedMean{.y = y,
                              .ids = m.ints({1, 2, 3, 4, 5}),
                              .spans = m.ints({0, 1, 1, 4}, 2),
                              .table = m.random_bf16(9, 40)},
                    y};
      },
      kFewUlps);
  check(
      [](TensorMaker& m) {
        const Tensor y = m.random(4, 40);
        return Made{AddRows{.y = y, .x = m.random_bf16(3, 40), .index = m.ints({2, 0, 0, 1})}, y};
      },
      kFewUlps);
}

TEST(CpuOps, HeadSteps) {
  check(
      [](TensorMaker& m) {
        const Tensor z = m.empty(2, 64);
        return Made{OptionSummary{
                        .z = z, .options = m.random(5, 64), .fields = m.random(2, 64), .cu_options = m.ints({0, 1, 5})},
                    z};
      },
      kFewUlps);
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(5, 4 * 64);
        return Made{ScorerFeatures{.y = y,
                                   .fields = m.random(2, 64),
                                   .options = m.random(5, 64),
                                   .question_of_option = m.ints({0, 1, 1, 1, 1})},
                    y};
      },
      kFewUlps);
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(5, 1);
        return Made{OptionLogits{.logits = y,
                                 .lexical = m.random(5, 96),
                                 .question = m.random(2, 96),
                                 .last = m.random(2, 96),
                                 .fields = m.random(2, 64),
                                 .options = m.random(5, 64),
                                 .residual = m.random(5, 1),
                                 .question_of_option = m.ints({0, 1, 1, 1, 1}),
                                 .prior_scale = 12,
                                 .joint_scale = 5,
                                 .gate = 0.6F},
                    y};
      },
      kFewUlps);
}

TEST(CpuOps, CrossAttentionOverSeveralBlocksOfQueries) {
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(600, 2 * 72), qkv = m.random(600, 6 * 72, 3);
        return Made{CrossAttention{.y = y,
                                   .q = qkv.col_range(0, 144),
                                   .k = qkv.col_range(144, 144),
                                   .v = qkv.col_range(288, 144),
                                   .cu_queries = m.ints({0, 4, 600}),
                                   .cu_keys = m.ints({0, 4, 600}),
                                   .head_dim = 72},
                    y};
      },
      kLongSums);
}

TEST(CpuOps, VisionSteps) {
  check(
      [](TensorMaker& m) {
        const Tensor y = m.empty(50, 40), levels = m.empty(50, 100, DType::u8);
        for (std::int64_t i = 0; i < 50 * 100; ++i)
          levels.row<std::uint8_t>(0)[i] = static_cast<std::uint8_t>(i * 31 + i / 7);
        return Made{PatchEmbed{.y = y, .levels = levels, .w = m.random_bf16(40, 100), .bias = m.random(1, 40)}, y};
      },
      kLongSums);
  check(
      [](TensorMaker& m) {
        const Tensor y = m.random(3, 40);
        return Made{AddInterpolated{.y = y,
                                    .table = m.random_bf16(9, 40),
                                    .taps = m.ints({0, 1, 2, 3, 8, 8, 8, 8, 1, 3, 5, 7}, 4),
                                    .weights = m.random(3, 4)},
                    y};
      },
      kFewUlps);
  check(
      [](TensorMaker& m) {
        const Tensor x = m.random(5, 3 * 72);
        return Made{Rope{.x = x, .cos = m.random(5, 36), .sin = m.random(5, 36)}, x};
      },
      kFewUlps);
  check(
      [](TensorMaker& m) {
        const Tensor y = m.random(5, 40);
        return Made{PutRows{.y = y, .x = m.random(2, 40), .index = m.ints({4, 1})}, y};
      },
      0);
}

TEST(CpuOps, NanStaysNan) {
  const auto device = std::move(open_cpu_device({.num_threads = 1})).value();
  TensorMaker m(*device, 1);
  const Tensor x = m.random(1, 64), y = m.empty(1, 64), w = m.random_bf16(64, 64);
  x.row<float>(0)[5] = std::nanf("");
  const auto pass = device->begin();
  pass->run(LinearSwiglu{.y = y, .x = x, .gate = w, .up = w});
  for (int c = 0; c < 64; ++c) EXPECT_TRUE(std::isnan(y.row<float>(0)[c]));
}

}  // namespace
}  // namespace clef
