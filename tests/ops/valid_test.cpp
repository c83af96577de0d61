// Ops whose parts do not fit together are seen to be so before a backend is asked.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_device.h"
#include "ops/op.h"
#include "support/op_bench.h"

namespace clef {
namespace {

class Valid : public ::testing::Test {
 protected:
  static constexpr std::int64_t kRows = 5, kPrecise = 2, kDepth = 8, kWidth = 6;
  LowPart low(std::int64_t rows, std::int64_t cols) {
    LowPart part;
    part.values = m.empty(rows, low_stride(cols), DType::u8).col_range(0, cols);
    part.scales = m.empty(1, rows);
    return part;
  }
  PreciseRows precise() { return {.rows = m.ints({1, 4}), .places = m.ints({-1, 0, -1, -1, 1})}; }
  LinearSwiglu swiglu() {
    return {.y = m.empty(kRows, kWidth, DType::f16),
            .x = m.empty(kRows, kDepth, DType::f16),
            .gate = m.random_bf16(kWidth, kDepth),
            .up = m.random_bf16(kWidth, kDepth),
            .precise = precise(),
            .low = low(kPrecise, kDepth),
            .y_low = low(kPrecise, kWidth),
            .low_sums = m.empty(kPrecise, 2 * kWidth, DType::f16),
            .remainder = m.empty(kPrecise, kWidth, DType::f16)};
  }
  template <typename Change>
  bool is_valid_but(Change change) {
    LinearSwiglu op = swiglu();
    change(op);
    return valid(op);
  }

  std::unique_ptr<Device> device = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
  test::TensorMaker m{*device, 1};
};

TEST_F(Valid, LowPartsFitTheirRows) {
  EXPECT_TRUE(valid(swiglu()));
  EXPECT_FALSE(is_valid_but([&](auto& op) { op.precise = {}; })) << "then all rows are meant";
  EXPECT_TRUE(is_valid_but([&](auto& op) {
    op.precise = {};
    op.low = low(kRows, kDepth);
    op.y_low = low(kRows, kWidth);
    op.low_sums = m.empty(kRows, 2 * kWidth, DType::f16);
    op.remainder = m.empty(kRows, kWidth, DType::f16);
  }));
  EXPECT_FALSE(is_valid_but([&](auto& op) { op.precise.places = m.ints({-1, 0, 1}); })) << "a place for each row";
  EXPECT_FALSE(is_valid_but([&](auto& op) { op.low = low(kPrecise + 1, kDepth); }));
  EXPECT_FALSE(is_valid_but([&](auto& op) { op.y_low = {}; })) << "of x alone";
  EXPECT_FALSE(is_valid_but([&](auto& op) { op.low_sums = {}; }));
  EXPECT_FALSE(is_valid_but([&](auto& op) {
    op.low_sums = m.empty(kPrecise, 2 * kWidth + 2, DType::f16).col_range(0, 2 * kWidth);
  })) << "gaps";
  EXPECT_FALSE(is_valid_but([&](auto& op) { op.remainder = m.empty(kPrecise, kWidth); })) << "f32";
}

// Two sequences of seven tokens together, of each of which the first two are known.
TEST_F(Valid, KnownPrefixesFitTheirOps) {
  const Tensor cu = m.ints({0, 3, 7});
  const ShortConv conv{.q = m.empty(7, 4),
                       .k = m.empty(7, 4),
                       .v = m.empty(7, 8),
                       .x = m.empty(3, 16),
                       .weight = m.empty(4, 16),
                       .cu_seqlens = cu,
                       .head_dim = 4,
                       .prefix = m.empty(2, 16)};
  const DeltaNet net{.y = m.empty(3, 8),
                     .q = m.empty(7, 4),
                     .k = m.empty(7, 4),
                     .v = m.empty(7, 8),
                     .b = m.empty(3, 2),
                     .a = m.empty(3, 2),
                     .neg_exp_a_log = m.empty(1, 2),
                     .dt_bias = m.empty(1, 2),
                     .cu_seqlens = cu,
                     .head_dim = 4,
                     .value_dim = 4,
                     .prefix_b = m.empty(2, 2),
                     .prefix_a = m.empty(2, 2)};
  const Attention attention{.y = m.empty(3, 8),
                            .q = m.empty(3, 8),
                            .k = m.empty(7, 4),
                            .v = m.empty(7, 4),
                            .q_gate = m.empty(3, 16),
                            .cu_seqlens = cu,
                            .head_dim = 4,
                            .prefix = 2};
  const PrependRows rows{.y = m.empty(7, 4), .x = m.empty(3, 4), .prefix = m.empty(2, 4), .cu_seqlens = cu};
  const auto is_valid_but = [](auto op, auto change) {
    change(op);
    return valid(op);
  };
  const auto nothing = [](auto&) {};
  EXPECT_TRUE(is_valid_but(conv, nothing));
  EXPECT_FALSE(is_valid_but(conv, [&](auto& op) { op.x = m.empty(7, 16); })) << "x has the new tokens alone";
  EXPECT_FALSE(is_valid_but(conv, [&](auto& op) { op.prefix = m.empty(2, 12); })) << "other channels";
  EXPECT_FALSE(is_valid_but(conv, [&](auto& op) { op.prefix = m.empty(2, 16, DType::f16); }));
  EXPECT_FALSE(is_valid_but(conv, [&](auto& op) { op.prefix = m.empty(4, 16); })) << "more than there are";
  EXPECT_TRUE(is_valid_but(net, nothing));
  EXPECT_FALSE(is_valid_but(net, [&](auto& op) { op.y = m.empty(7, 8); })) << "y has the new tokens alone";
  EXPECT_FALSE(is_valid_but(net, [&](auto& op) { op.prefix_a = {}; })) << "one without the other";
  EXPECT_FALSE(is_valid_but(net, [&](auto& op) { op.prefix_a = m.empty(3, 2); }));
  EXPECT_FALSE(is_valid_but(net, [&](auto& op) { op.prefix_a = m.empty(2, 4).col_range(0, 2); })) << "rows apart";
  EXPECT_FALSE(is_valid_but(net, [&](auto& op) { op.prefix_b = op.prefix_a = m.empty(2, 1); })) << "a head too few";
  EXPECT_TRUE(is_valid_but(attention, nothing));
  EXPECT_FALSE(is_valid_but(attention, [&](auto& op) { op.prefix = 1; }));
  EXPECT_FALSE(is_valid_but(attention, [&](auto& op) { op.prefix = -1; }));
  EXPECT_FALSE(is_valid_but(attention, [&](auto& op) { op.q_gate = m.empty(7, 16); }));
  EXPECT_TRUE(is_valid_but(rows, nothing));
  EXPECT_FALSE(is_valid_but(rows, [&](auto& op) { op.prefix = {}; }));
  EXPECT_FALSE(is_valid_but(rows, [&](auto& op) { op.prefix = m.empty(2, 5); }));
  EXPECT_FALSE(is_valid_but(rows, [&](auto& op) { op.cu_seqlens = {}; }));
}

TEST_F(Valid, RowsAreTakenOfAMatrixLikeTheirs) {
  const Tensor ids = m.ints({1, 0, 1});
  EXPECT_TRUE(valid(TakeRows{.y = m.empty(3, 4), .ids = ids, .table = m.empty(2, 4)}));
  EXPECT_FALSE(valid(TakeRows{.y = m.empty(2, 4), .ids = ids, .table = m.empty(2, 4)}));
  EXPECT_FALSE(valid(TakeRows{.y = m.empty(3, 4), .ids = ids, .table = m.empty(2, 5)}));
  EXPECT_FALSE(valid(TakeRows{.y = m.empty(3, 4), .ids = ids, .table = m.empty(2, 4, DType::f16)}));
  EXPECT_FALSE(valid(TakeRows{.y = m.empty(3, 4), .ids = m.empty(1, 3), .table = m.empty(2, 4)}));
  EXPECT_FALSE(valid(TakeRows{.y = m.empty(3, 4), .ids = ids, .table = {}}));
}

TEST_F(Valid, ABiasGoesWithoutGates) {
  Projections op{.y = m.empty(kRows, 2 * kWidth),
                 .x = m.empty(kRows, kDepth),
                 .first = m.random_bf16(kWidth, kDepth),
                 .second = m.random_bf16(kWidth, kDepth),
                 .third = {},
                 .bias = m.empty(1, 2 * kWidth)};
  EXPECT_TRUE(valid(op));
  op.bias = m.empty(1, kWidth);
  EXPECT_FALSE(valid(op)) << "one for each column of y";
  op.bias = m.empty(1, 2 * kWidth);
  op.gates = m.empty(kRows, 2);
  op.gate_first = op.gate_second = m.random_bf16(1, kDepth);
  EXPECT_FALSE(valid(op));
}

TEST_F(Valid, ProjectionsOfItemsHaveNoGates) {
  Projections op{.y = m.empty(kRows, 2 * kWidth),
                 .x = m.empty(kRows, kDepth),
                 .first = m.random_bf16(kWidth, kDepth),
                 .second = m.random_bf16(kWidth, kDepth),
                 .third = {},
                 .items = true};
  EXPECT_TRUE(valid(op));
  op.gates = m.empty(kRows, 2);
  op.gate_first = op.gate_second = m.random_bf16(1, kDepth);
  EXPECT_FALSE(valid(op));
  op.items = false;
  EXPECT_TRUE(valid(op));
}

}  // namespace
}  // namespace clef
