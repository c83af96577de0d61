// What ops cost at least.
#include "ops/cost.h"

#include <gtest/gtest.h>

#include "backend/cpu/cpu_device.h"
#include "support/op_bench.h"

namespace clef {
namespace {

class Cost : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
  test::TensorMaker m{*device, 1};
};

TEST_F(Cost, CountsWhatIsReadAndWrittenTwice) {
  const LinearAdd op{.y = m.empty(2, 3), .x = m.empty(2, 4), .w = m.random_bf16(3, 4), .bias = m.empty(1, 3)};
  EXPECT_EQ(bytes(op), 2 * (2 * 3 * 4) + 2 * 4 * 4 + 3 * 4 * 2 + 3 * 4);
  EXPECT_EQ(flops(op, *device), 2 * 2 * 3 * 4);
}

TEST_F(Cost, CountsTheRowsOfATableThatAreLookedUp) {
  const std::int64_t n = 8, written = 5 * n * 4;
  const Tensor table = m.random_bf16(1000, n), ids = m.ints({3, 0, 6, 6, 1});
  EXPECT_EQ(bytes(Embed{.y = m.empty(5, n), .ids = ids, .table = table}), written + 5 * 4 + 5 * n * 2);
  EXPECT_EQ(bytes(TakeRows{.y = m.empty(5, n), .ids = ids, .table = m.empty(1000, n)}), 2 * written + 5 * 4);
  EXPECT_EQ(bytes(AddRows{.y = m.empty(5, n), .x = m.empty(1000, n), .index = ids}), 2 * written + written + 5 * 4);
  EXPECT_EQ(bytes(PutRows{.y = m.empty(1000, n), .x = m.empty(5, n), .index = ids}), 2 * written + 5 * 4);
}

TEST_F(Cost, CountsTheCopiesOfWeightsThatLowPartsAreMultipliedWith) {
  const Tensor w = m.random_bf16(3, 16);
  LinearAdd op{.y = m.empty(2, 3), .x = m.empty(2, 16), .w = w, .bias = {}};
  Projections both{.y = m.empty(2, 6), .x = m.empty(2, 16), .first = w, .second = w, .third = {}};
  LinearSwiglu pair{.y = m.empty(2, 3), .x = m.empty(2, 16), .gate = w, .up = w};
  const double add = bytes(op), projections = bytes(both), swiglu = bytes(pair);
  LowPart low;
  low.values = m.empty(2, 16);
  low.scales = m.empty(1, 2);
  op.low = both.low = pair.low = low;
  const double of_low = (2 * 16 + 2) * 4;  // this maker's tensors are f32
  EXPECT_EQ(bytes(op), add + of_low + 3 * 16);
  EXPECT_EQ(bytes(both), projections + of_low + 2 * 3 * 16);
  EXPECT_EQ(bytes(pair), swiglu + of_low + 2 * 3 * 16);
}

TEST_F(Cost, CountsTheQueriesThatThereAre) {
  Attention op{.y = m.empty(7, 8),
               .q = m.empty(7, 8),
               .k = m.empty(7, 8),
               .v = m.empty(7, 8),
               .q_gate = m.empty(7, 16),
               .cu_seqlens = m.ints({0, 3, 7}),
               .head_dim = 8};
  EXPECT_EQ(flops(op, *device), 4 * 8 * (1 + 2 + 3 + 1 + 2 + 3 + 4));
  op.y = op.q = m.empty(3, 8);
  op.q_gate = m.empty(3, 16);
  op.prefix = 2;
  EXPECT_EQ(flops(op, *device), 4 * 8 * (3 + 3 + 4));
}

TEST_F(Cost, OfWhatIsNotThereIsNothing) {
  const Linear op{.y = m.empty(2, 3), .x = m.empty(2, 4), .w = m.random_bf16(3, 4), .bias = {}};
  EXPECT_EQ(bytes(op), 2 * 3 * 4 + 2 * 4 * 4 + 3 * 4 * 2);
}

}  // namespace
}  // namespace clef
