// Every op on the GPU against its definition, on small ragged shapes, in both types of activations.
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <set>
#include <tuple>

#include "backend/cpu/cpu_device.h"
#include "backend/cuda/cuda_device.h"
#include "mixer_cases.h"
#include "op_mirror.h"

namespace clef {
namespace {

using test::op_error;
using test::OpCase;
using test::OpMaker;

Tensor angles(OpMaker& m, std::int64_t tokens, std::int64_t pairs, bool is_sine) {
  const Tensor t = m.empty(tokens, pairs);
  for (std::int64_t i = 0; i < tokens * pairs; ++i) {
    t.row<float>(0)[i] = is_sine ? std::sin(static_cast<float>(i)) : std::cos(static_cast<float>(i));
  }
  return t;
}

// Every third row matters; the others hold what FP16 has exactly, so that whoever rounds them changes nothing.
struct MarkedRows {
  Tensor x;
  PreciseRows precise;
};
MarkedRows marked_rows(OpMaker& m, std::int64_t rows, std::int64_t cols) {
  const Tensor x = m.random(rows, cols);
  std::vector<std::int32_t> numbers, places;
  for (std::int64_t r = 0; r < rows; ++r) {
    places.push_back(r % 3 == 0 ? static_cast<std::int32_t>(numbers.size()) : -1);
    if (r % 3 == 0) {
      numbers.push_back(static_cast<std::int32_t>(r));
      continue;
    }
    for (std::int64_t c = 0; c < cols; ++c) x.row<float>(r)[c] = f16_to_f32(f32_to_f16(x.row<float>(r)[c]));
  }
  return {m.as_activation(x), {.rows = m.ints(numbers), .places = m.ints(places)}};
}

void add_marked_products(std::vector<OpCase>& cases) {
  cases.push_back({"projections with gates of marked rows", [](OpMaker& m) -> Op {
                     const MarkedRows rows = marked_rows(m, 150, 256);
                     return Projections{.y = m.empty_activation(150, 512 + 128),
                                        .x = rows.x,
                                        .first = m.random_bf16(512, 256),
                                        .second = m.random_bf16(128, 256),
                                        .third = {},
                                        .gates = m.empty(150, 2 * 32),
                                        .gate_first = m.random_bf16(32, 256),
                                        .gate_second = m.random_bf16(32, 256),
                                        .precise = rows.precise};
                   }});
  cases.push_back({"projections with gates", [](OpMaker& m) -> Op {
                     return Projections{.y = m.empty_activation(65, 256 + 64),
                                        .x = m.random_activation(65, 256),
                                        .first = m.random_bf16(256, 256),
                                        .second = m.random_bf16(64, 256),
                                        .third = {},
                                        .gates = m.empty(65, 2 * 4),
                                        .gate_first = m.random_bf16(4, 256),
                                        .gate_second = m.random_bf16(4, 256),
                                        .precise = {}};
                   }});
  cases.push_back(
      {"linear_add of marked rows", [](OpMaker& m) -> Op {
         const MarkedRows rows = marked_rows(m, 150, 1000);
         return LinearAdd{
             .y = m.random(150, 96), .x = rows.x, .w = m.random_bf16(96, 1000), .bias = {}, .precise = rows.precise};
       }});
  cases.push_back({"linear_swiglu of marked rows", [](OpMaker& m) -> Op {
                     const MarkedRows rows = marked_rows(m, 150, 264);
                     return LinearSwiglu{.y = m.empty_activation(150, 300),
                                         .x = rows.x,
                                         .gate = m.random_bf16(300, 264, 0.2F),
                                         .up = m.random_bf16(300, 264, 0.2F),
                                         .precise = rows.precise};
                   }});
}

struct Size {
  std::int64_t rows, n, k;
};
std::string name_of(const Size& s) {
  return std::to_string(s.rows) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
}

// Of rows of questions or options: f32 throughout.
void add_item_products(std::vector<OpCase>& cases, const Size& s) {
  const std::string size = name_of(s);
  cases.push_back({"projections of items " + size,
                   [s](OpMaker& m) -> Op {
                     return Projections{.y = m.empty(s.rows, 3 * s.n),
                                        .x = m.random(s.rows, s.k),
                                        .first = m.random_bf16(s.n, s.k),
                                        .second = m.random_bf16(s.n, s.k),
                                        .third = m.random_bf16(s.n, s.k),
                                        .bias = m.random(1, 3 * s.n),
                                        .items = true};
                   },
                   false});
  cases.push_back({"linear of items " + size,
                   [s](OpMaker& m) -> Op {
                     return Linear{.y = m.empty(s.rows, s.n),
                                   .x = m.random(s.rows, s.k),
                                   .w = m.random_bf16(s.n, s.k),
                                   .bias = m.random(1, s.n),
                                   .items = true};
                   },
                   false});
  cases.push_back({"linear_add of items " + size,
                   [s](OpMaker& m) -> Op {
                     return LinearAdd{.y = m.random(s.rows, s.n),
                                      .x = m.random(s.rows, s.k),
                                      .w = m.random_bf16(s.n, s.k),
                                      .bias = m.random(1, s.n),
                                      .items = true};
                   },
                   false});
  cases.push_back({"linear_gelu of items " + size,
                   [s](OpMaker& m) -> Op {
                     return LinearGelu{.y = m.empty(s.rows, s.n),
                                       .x = m.random(s.rows, s.k),
                                       .w = m.random_bf16(s.n, s.k, 0.3F),
                                       .bias = m.random(1, s.n),
                                       .gelu = Gelu::erf,
                                       .items = true};
                   },
                   false});
}

void add_products(std::vector<OpCase>& cases) {
  for (const Size s : {Size{1, 1, 8}, {3, 33, 264}, {65, 300, 256}, {257, 96, 1000}, {130, 520, 64}}) {
    const std::string size = name_of(s);
    cases.push_back({"linear " + size, [s](OpMaker& m) -> Op {
                       return Linear{.y = m.empty_activation(s.rows, s.n),
                                     .x = m.random_activation(s.rows, s.k),
                                     .w = m.random_bf16(s.n, s.k),
                                     .bias = m.random(1, s.n)};
                     }});
    cases.push_back({"linear into f32 " + size, [s](OpMaker& m) -> Op {
                       return Linear{.y = m.empty(s.rows, s.n),
                                     .x = m.random_activation(s.rows, s.k),
                                     .w = m.random_bf16(s.n, s.k),
                                     .bias = {}};
                     }});
    cases.push_back({"linear_add " + size, [s](OpMaker& m) -> Op {
                       return LinearAdd{.y = m.random(s.rows, s.n),
                                        .x = m.random_activation(s.rows, s.k),
                                        .w = m.random_bf16(s.n, s.k),
                                        .bias = m.random(1, s.n)};
                     }});
    cases.push_back({"linear_swiglu " + size, [s](OpMaker& m) -> Op {
                       return LinearSwiglu{.y = m.empty_activation(s.rows, s.n),
                                           .x = m.random_activation(s.rows, s.k),
                                           .gate = m.random_bf16(s.n, s.k, 0.2F),
                                           .up = m.random_bf16(s.n, s.k, 0.2F)};
                     }});
    for (const Gelu gelu : {Gelu::erf, Gelu::tanh}) {
      cases.push_back(
          {(gelu == Gelu::erf ? "linear_gelu erf " : "linear_gelu tanh ") + size, [s, gelu](OpMaker& m) -> Op {
             return LinearGelu{.y = m.empty_activation(s.rows, s.n),
                               .x = m.random_activation(s.rows, s.k),
                               .w = m.random_bf16(s.n, s.k, 0.3F),
                               .bias = m.random(1, s.n),
                               .gelu = gelu};
           }});
    }
    add_item_products(cases, s);
  }
  // Several columns a warp: with few rows, with many; and rows longer than shared memory takes at once.
  for (const Size s : {Size{2, 40, 5128}, {3, 4100, 264}, {6, 36, 1032}, {40, 1000, 1032}}) add_item_products(cases, s);
  for (const bool has_third : {false, true}) {
    cases.push_back({has_third ? "projections, three" : "projections, two", [has_third](OpMaker& m) -> Op {
                       const std::int64_t third = has_third ? 64 : 0;
                       return Projections{.y = m.empty_activation(77, 512 + 64 + third),
                                          .x = m.random_activation(77, 256),
                                          .first = m.random_bf16(512, 256),
                                          .second = m.random_bf16(64, 256),
                                          .third = has_third ? In(m.random_bf16(64, 256)) : In()};
                     }});
  }
  for (const std::int64_t rows : {77, 200}) {
    cases.push_back({"projections with a bias, " + std::to_string(rows), [rows](OpMaker& m) -> Op {
                       return Projections{.y = m.empty_activation(rows, 128 + 128),
                                          .x = m.random_activation(rows, 256),
                                          .first = m.random_bf16(128, 256),
                                          .second = m.random_bf16(128, 256),
                                          .third = {},
                                          .bias = m.random(1, 256)};
                     }});
  }
  cases.push_back({"projections into f32", [](OpMaker& m) -> Op {
                     return Projections{.y = m.empty(77, 64),
                                        .x = m.random_activation(77, 256),
                                        .first = m.random_bf16(32, 256),
                                        .second = m.random_bf16(32, 256),
                                        .third = {}};
                   }});
  cases.push_back(
      {"patch_embed",
       [](OpMaker& m) -> Op {
         const Tensor levels = m.empty(50, 1536, DType::u8);
         for (std::int64_t i = 0; i < 50 * 1536; ++i) {
           levels.row<std::uint8_t>(0)[i] = static_cast<std::uint8_t>(i * 31 + i / 7);
         }
         return PatchEmbed{
             .y = m.empty(50, 144), .levels = levels, .w = m.random_bf16(144, 1536), .bias = m.random(1, 144)};
       },
       false});
}

void add_norms(std::vector<OpCase>& cases) {
  for (const std::int64_t n : {16, 40, 256, 1000, 5120}) {
    cases.push_back(
        {"rms_norm of " + std::to_string(n), [n](OpMaker& m) -> Op {
           return RmsNorm{
               .y = m.empty_activation(19, n), .x = m.random(19, n, 3), .gain = m.random(1, n), .eps = 1e-6F};
         }});
    cases.push_back({"layer_norm of " + std::to_string(n), [n](OpMaker& m) -> Op {
                       return LayerNorm{.y = m.empty_activation(18, n),
                                        .x = m.random(18, n, 2, 1),
                                        .gain = m.random(1, n),
                                        .bias = m.random(1, n),
                                        .eps = 1e-5F};
                     }});
  }
  cases.push_back({"gated_rms_norm", [](OpMaker& m) -> Op {
                     return GatedRmsNorm{.y = m.empty_activation(21, 3 * 128),
                                         .x = m.random_activation(21, 3 * 128, 0.01F),
                                         .z = m.random_activation(21, 3 * 128, 4),
                                         .gain = m.random(1, 128),
                                         .eps = 1e-6F};
                   }});
  for (const std::int64_t n : {256, 128}) {
    cases.push_back({"qk_norm_rope of heads of " + std::to_string(n), [n](OpMaker& m) -> Op {
                       return QkNormRope{
                           .q = m.empty_activation(7, 4 * n),
                           .k = m.empty_activation(7, 2 * n),
                           .q_gate = m.random_activation(7, 8 * n),
                           .k_raw = m.random_activation(7, 2 * n),
                           .q_gain = m.random(1, n),
                           .k_gain = m.random(1, n),
                           .cos = angles(m, 9, 32, false),
                           .sin = angles(m, 9, 32, true),
                           .positions = m.ints({0, 0, 0, 3, 4, 5, 8, 1, 2, 7, 7, 7, 2, 8, 0, 1, 1, 6, 5, 5, 5}, 3),
                           .height_pairs = 11,
                           .width_pairs = 10,
                           .eps = 1e-6F};
                     }});
  }
  for (const std::int64_t pairs : {36, 6}) {
    cases.push_back({"rope of pairs " + std::to_string(pairs), [pairs](OpMaker& m) -> Op {
                       return Rope{.x = m.random_activation(5, 3 * 2 * pairs),
                                   .cos = angles(m, 5, pairs, false),
                                   .sin = angles(m, 5, pairs, true)};
                     }});
  }
}

void add_gathers(std::vector<OpCase>& cases) {
  cases.push_back({"embed",
                   [](OpMaker& m) -> Op {
                     return Embed{.y = m.empty(5, 256), .ids = m.ints({3, 0, 6, 6, 1}), .table = m.random_bf16(7, 256)};
                   },
                   false});
  for (const std::int64_t columns : {6, 256, 12352}) {
    cases.push_back({"take_rows of " + std::to_string(columns), [columns](OpMaker& m) -> Op {
                       return TakeRows{.y = m.empty_activation(5, columns),
                                       .ids = m.ints({3, 0, 6, 6, 1}),
                                       .table = m.random_activation(7, columns)};
                     }});
  }
  cases.push_back(
      {"span_mean",
       [](OpMaker& m) -> Op {
         return SpanMean{.y = m.empty(3, 260), .x = m.random(30, 260), .spans = m.ints({0, 1, 5, 20, 29, 1}, 2)};
       },
       false});
  cases.push_back({"embed_mean",
                   [](OpMaker& m) -> Op {
                     return EmbedMean{.y = m.empty(2, 256),
                                      .ids = m.ints({1, 2, 3, 4, 5}),
                                      .spans = m.ints({0, 1, 1, 4}, 2),
                                      .table = m.random_bf16(9, 256)};
                   },
                   false});
  cases.push_back({"add_rows of a table",
                   [](OpMaker& m) -> Op {
                     return AddRows{.y = m.random(4, 256), .x = m.random_bf16(3, 256), .index = m.ints({2, 0, 0, 1})};
                   },
                   false});
  cases.push_back({"add_rows, all of them",
                   [](OpMaker& m) -> Op { return AddRows{.y = m.random(9, 260), .x = m.random(9, 260), .index = {}}; },
                   false});
  cases.push_back({"add_interpolated",
                   [](OpMaker& m) -> Op {
                     return AddInterpolated{.y = m.random(3, 144),
                                            .table = m.random_bf16(9, 144),
                                            .taps = m.ints({0, 1, 2, 3, 8, 8, 8, 8, 1, 3, 5, 7}, 4),
                                            .weights = m.random(3, 4)};
                   },
                   false});
  cases.push_back({"add_interpolated, not in words",
                   [](OpMaker& m) -> Op {
                     return AddInterpolated{.y = m.random(2, 6),
                                            .table = m.random_bf16(9, 6),
                                            .taps = m.ints({0, 1, 2, 3, 8, 8, 8, 8}, 4),
                                            .weights = m.random(2, 4)};
                   },
                   false});
  cases.push_back({"put_rows, not in words",
                   [](OpMaker& m) -> Op {
                     return PutRows{.y = m.random(5, 6), .x = m.random(2, 6), .index = m.ints({4, 1})};
                   },
                   false});
  cases.push_back({"put_rows",
                   [](OpMaker& m) -> Op {
                     return PutRows{.y = m.random(5, 256), .x = m.random(2, 256), .index = m.ints({4, 1})};
                   },
                   false});
}

void add_head_steps(std::vector<OpCase>& cases) {
  for (const std::int64_t width : {96, 1024}) {
    const std::string suffix = " of " + std::to_string(width);
    cases.push_back({"option_summary" + suffix,
                     [width](OpMaker& m) -> Op {
                       return OptionSummary{.z = m.empty(2, width),
                                            .options = m.random(5, width),
                                            .fields = m.random(2, width),
                                            .cu_options = m.ints({0, 1, 5})};
                     },
                     false});
    cases.push_back({"scorer_features" + suffix,
                     [width](OpMaker& m) -> Op {
                       return ScorerFeatures{.y = m.empty(5, 4 * width),
                                             .fields = m.random(2, width),
                                             .options = m.random(5, width),
                                             .question_of_option = m.ints({0, 1, 1, 1, 1})};
                     },
                     false});
    cases.push_back({"option_logits" + suffix,
                     [width](OpMaker& m) -> Op {
                       return OptionLogits{.logits = m.empty(5, 1),
                                           .lexical = m.random(5, 2 * width),
                                           .question = m.random(2, 2 * width),
                                           .last = m.random(2, 2 * width),
                                           .fields = m.random(2, width),
                                           .options = m.random(5, width),
                                           .residual = m.random(5, 1),
                                           .question_of_option = m.ints({0, 1, 1, 1, 1}),
                                           .prior_scale = 12,
                                           .joint_scale = 5,
                                           .gate = 0.6F};
                     },
                     false});
  }
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases;
  add_products(cases);
  add_marked_products(cases);
  add_norms(cases);
  test::add_mixers(cases);
  test::add_known_prefixes(cases);
  add_gathers(cases);
  add_head_steps(cases);
  return cases;
}

// f32: products take f32 as two FP16 planes of 22 bits together, and tensor cores cut their sums. FP16: half a unit in
// the last place of each element gives 2.8e-4 of the norm, and the mixers round inside.
double limit_of(DType activation) { return activation == DType::f32 ? 1e-5 : 6e-4; }
constexpr double kWorstOverNorm = 8;  // of one element over the largest, to the L2 norm's limit

void check(const OpCase& c, Device& device, DType activation) {
  const auto error = op_error(c.make, device, activation);
  EXPECT_EQ(error.failure, "") << c.name;
  EXPECT_LE(error.relative, limit_of(activation)) << c.name;
  EXPECT_LE(error.worst, kWorstOverNorm * limit_of(activation)) << c.name;
  std::printf("  %-55s %-4s %.1e, worst %.1e\n", c.name.c_str(), std::string(name_of(activation)).c_str(),
              error.relative, error.worst);
}

using TypedCase = std::tuple<DType, OpCase>;

// A test each, so that some of them can be run alone under a slow tool.
std::vector<TypedCase> typed_cases() {
  std::vector<TypedCase> typed;
  for (const OpCase& c : all_cases()) {
    typed.emplace_back(DType::f32, c);
    if (c.has_f16) typed.emplace_back(DType::f16, c);
  }
  return typed;
}

// "linear_add_65x300x256_F16"
std::string test_name(const ::testing::TestParamInfo<TypedCase>& info) {
  std::string name;
  for (const char c : std::get<1>(info.param).name + " " + std::string(name_of(std::get<0>(info.param)))) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (name.back() != '_') {
      name += '_';
    }
  }
  return name;
}

class CudaOp : public ::testing::TestWithParam<TypedCase> {
 protected:
  static void SetUpTestSuite() {
    for (const DType activation : {DType::f32, DType::f16}) {
      auto device = open_cuda_device({.precise_layers = {}, .activation = activation});
      if (!device) {
        why_none = device.error().message;
        std::printf("not checked here: %s\n", why_none.c_str());
        return;
      }
      devices[activation] = std::move(device).value();
    }
  }
  static void TearDownTestSuite() { devices.clear(); }
  static inline std::map<DType, std::unique_ptr<Device>> devices;
  static inline std::string why_none;
};

TEST_P(CudaOp, AgreesWithItsDefinition) {
  const auto& [activation, c] = GetParam();
  if (!devices.contains(activation)) GTEST_SKIP() << why_none;
  check(c, *devices[activation], activation);
}

INSTANTIATE_TEST_SUITE_P(All, CudaOp, ::testing::ValuesIn(typed_cases()), test_name);

// The cases and the way they are sent, on a device that is always there.
TEST(CudaOpCases, HoldOnTheCpu) {
  const auto device = open_cpu_device({.num_threads = 1});
  ASSERT_TRUE(device) << device.error().message;
  for (const OpCase& c : all_cases()) check(c, **device, DType::f32);
}

TEST(CudaOpCases, HaveEveryOp) {
  std::set<std::size_t> kinds;
  const auto host = std::move(open_cpu_device({.num_threads = 1})).value();
  for (const OpCase& c : all_cases()) {
    OpMaker maker(*host, DType::f16, 1);
    const Op op = c.make(maker);
    EXPECT_TRUE(is_valid(op)) << c.name;
    kinds.insert(op.index());
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Op>);
}

}  // namespace
}  // namespace clef
