// Activations of f16 with a low part: what the ops that write them leave, and products that read them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cuda/cuda_device.h"
#include "op_mirror.h"
#include "skip.h"

namespace clef {
namespace {

using test::OpMaker;
using test::OpMirror;

constexpr int kEvery = 3;  // one row of so many is precise; where it is 1, all are, which nothing need say

class CudaLowPart : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_cuda_device({});
    SKIP_BECAUSE(opened ? "" : opened.error().message);
    device = std::move(opened).value();
    SKIP_BECAUSE(device->has_low_parts() ? "" : device->name() + ": only Hopper's products take low parts");
  }

  template <typename O>
  void run_on_device(const O& op) {
    OpMirror mirror(*device);
    const auto sent = mirror.send(op);
    ASSERT_TRUE(sent) << sent.error().message;
    const auto pass = device->begin();
    pass->run(*sent);
    const Status done = pass->finish();
    ASSERT_TRUE(done) << done.error().message;
    ASSERT_TRUE(mirror.fetch());
  }

  // What the device says of an op that it refuses.
  std::string refusal_of(const Op& op) {
    OpMirror mirror(*device);
    const auto sent = mirror.send(op, false);
    if (!sent) return "not sent: " + sent.error().message;
    const auto pass = device->begin();
    pass->run(*sent);
    const Status done = pass->finish();
    return done ? "" : done.error().message;
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Device> host = std::move(open_cpu_device({.num_threads = 1, .kernels = "plain"})).value();
  OpMaker maker{*host, DType::f16, 7};
};

std::int64_t precise_count(std::int64_t rows, int every = kEvery) { return (rows + every - 1) / every; }

PreciseRows precise_rows(OpMaker& m, std::int64_t rows, int every = kEvery) {
  if (every == 1) return {};
  std::vector<std::int32_t> numbers, places;
  for (std::int64_t r = 0; r < rows; ++r) {
    places.push_back(r % every == 0 ? static_cast<std::int32_t>(r / every) : -1);
    if (r % every == 0) numbers.push_back(static_cast<std::int32_t>(r));
  }
  return {.rows = m.ints(numbers), .places = m.ints(places)};
}

// Filled with what nobody should find afterwards.
LowPart empty_low(OpMaker& m, std::int64_t all_rows, std::int64_t cols, int every = kEvery) {
  const std::int64_t rows = precise_count(all_rows, every);
  LowPart low;
  const Tensor all = m.empty(rows, low_stride(cols), DType::u8);
  std::memset(all.address(), 0xff, static_cast<std::size_t>(rows * all.stride));
  low.values = all.col_range(0, cols);
  low.scales = m.empty(1, rows);
  for (std::int64_t r = 0; r < rows; ++r) low.scales.row<float>(0)[r] = std::numeric_limits<float>::quiet_NaN();
  return low;
}

struct Input {
  Tensor x;
  LowPart low;
  PreciseRows precise;
};
Input random_input(OpMaker& m, std::int64_t rows, std::int64_t cols, int every = kEvery) {
  const Tensor from = m.random(rows, cols);
  Input input{.x = m.empty(rows, cols, DType::f16),
              .low = empty_low(m, rows, cols, every),
              .precise = precise_rows(m, rows, every)};
  std::vector<double> values(static_cast<std::size_t>(cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) values[static_cast<std::size_t>(c)] = definition::at(from, r, c);
    definition::put_row(input.x, input.low, input.precise, r, values);
  }
  return input;
}

double low_value(const LowOut& low, std::int64_t place, std::int64_t col) {
  return definition::at(low.scales, 0, place) *
         static_cast<double>(e4m3_to_f32(low.values.row<const std::uint8_t>(place)[col]));
}

// Of precise rows, y and its low part together against `exact`: FP16 loses 2^-11 of a value at most and E4M3 2^-4 of
// that, with a step below the least of the row's; `slack` of the row's largest is what the op itself may differ by.
void expect_near(const Tensor& y, const LowOut& low, const Tensor& exact, double slack, double limit,
                 int every = kEvery) {
  double squares = 0, differences = 0;
  for (std::int64_t r = 0; r < y.rows; ++r) {
    double largest = 0;
    for (std::int64_t c = 0; c < y.cols; ++c) largest = std::max(largest, std::abs(definition::at(exact, r, c)));
    if (r % every != 0) {
      for (std::int64_t c = 0; c < y.cols; ++c) {
        const double want = definition::at(exact, r, c);
        ASSERT_NEAR(definition::at(y, r, c), want, 0x1p-11 * std::abs(want) + 0x1p-24 + 2 * slack * largest);
      }
      continue;
    }
    for (std::int64_t c = 0; c < y.cols; ++c) {
      const double want = definition::at(exact, r, c);
      const double got = definition::at(y, r, c) + low_value(low, r / every, c);
      ASSERT_NEAR(got, want, 0x1p-15 * std::abs(want) + (0x1p-28 + slack) * largest) << "row " << r << ", column " << c;
      squares += want * want;
      differences += (got - want) * (got - want);
    }
  }
  std::printf("  with the low part: %.1e of the norm\n", std::sqrt(differences / squares));
  EXPECT_LE(std::sqrt(differences / squares), limit);
}

void expect_same_bits(const Tensor& a, const Tensor& b, bool precise_too) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    if (!precise_too && r % kEvery == 0) continue;
    EXPECT_EQ(std::memcmp(a.address(r), b.address(r), static_cast<std::size_t>(a.cols) * size_of(a.dtype)), 0)
        << "row " << r;
  }
}

TEST_F(CudaLowPart, OfRmsNorm) {
  for (const auto& [n, every] : {std::pair(40, 3), {1000, 3}, {4096, 3}, {4096, 1}, {5120, 3}}) {
    SCOPED_TRACE(n);
    constexpr std::int64_t kRows = 19;
    RmsNorm op{.y = maker.empty(kRows, n, DType::f16),
               .x = maker.random(kRows, n, 3),
               .gain = maker.random(1, n),
               .eps = 1e-6F,
               .low = empty_low(maker, kRows, n, every),
               .precise = precise_rows(maker, kRows, every)};
    RmsNorm exact = op, plain = op;
    exact.y = maker.empty(kRows, n);
    exact.low = plain.low = {};
    plain.y = maker.empty(kRows, n, DType::f16);
    define(exact);
    run_on_device(op);
    run_on_device(plain);
    expect_near(op.y, op.low, exact.y, 1e-6, 1e-5, every);
    expect_same_bits(op.y, plain.y, true);
  }
}

TEST_F(CudaLowPart, OfGatedRmsNorm) {
  for (const auto& [heads, every] : {std::pair(1, 3), {3, 1}, {32, 3}, {48, 3}}) {
    SCOPED_TRACE(heads);
    const std::int64_t rows = 13, n = heads * 128;
    GatedRmsNorm op{.y = maker.empty(rows, n, DType::f16),
                    .x = maker.random(rows, n, 0.01F),
                    .z = maker.random(rows, n, 4),
                    .gain = maker.random(1, 128),
                    .eps = 1e-6F,
                    .low = empty_low(maker, rows, n, every),
                    .precise = precise_rows(maker, rows, every)};
    GatedRmsNorm exact = op;
    exact.y = maker.empty(rows, n);
    exact.low = {};
    define(exact);
    run_on_device(op);
    expect_near(op.y, op.low, exact.y, 1e-6, 1e-5, every);
  }
}

TEST_F(CudaLowPart, OfLinearSwiglu) {
  struct Size {
    std::int64_t rows, n, k;
  };
  for (const auto& [s, every] :
       {std::pair(Size{150, 320, 264}, 3), {{33, 1048, 1000}, 3}, {{300, 512, 1024}, 3}, {{70, 512, 256}, 1}}) {
    SCOPED_TRACE(s.n);
    const Input input = random_input(maker, s.rows, s.k, every);
    LinearSwiglu op{.y = maker.empty(s.rows, s.n, DType::f16),
                    .x = input.x,
                    .gate = maker.random_bf16(s.n, s.k, 0.1F),
                    .up = maker.random_bf16(s.n, s.k, 0.1F),
                    .precise = input.precise,
                    .low = input.low,
                    .y_low = empty_low(maker, s.rows, s.n, every),
                    .low_sums = maker.empty(precise_count(s.rows, every), 2 * s.n, DType::f16),
                    .remainder = maker.empty(precise_count(s.rows, every), s.n, DType::f16)};
    LinearSwiglu exact = op, plain = op;
    exact.y = maker.empty(s.rows, s.n);
    exact.y_low = {};
    plain.y = maker.empty(s.rows, s.n, DType::f16);
    plain.low = {};
    plain.y_low = {};
    define(exact);
    run_on_device(op);
    run_on_device(plain);
    expect_near(op.y, op.y_low, exact.y, 2e-5, 3e-5, every);
    if (every > 1) expect_same_bits(op.y, plain.y, false);
  }
}

// Of the norm FP16 alone would lose 2e-4. E4M3 weights in what it lost lose 5e-6, and an f32 product is held to 1e-5.
constexpr double kProductLimit = 2e-5;

void expect_products_near(const test::MakeOp& make, Device& device) {
  const test::OpError error = test::op_error(make, device, DType::f16);
  EXPECT_EQ(error.failure, "");
  EXPECT_LE(error.relative, kProductLimit);
  std::printf("  %.1e of the norm, worst %.1e\n", error.relative, error.worst);
}

TEST_F(CudaLowPart, InProducts) {
  for (const auto& [depth, every] : {std::pair(64, 3), {264, 3}, {264, 1}, {1000, 3}, {4096, 3}}) {
    SCOPED_TRACE(depth);
    const auto add = [depth = depth, every = every](OpMaker& m) -> Op {
      const Input input = random_input(m, 150, depth, every);
      return LinearAdd{.y = m.random(150, 96, 0.01F),
                       .x = input.x,
                       .w = m.random_bf16(96, depth, 0.2F),
                       .bias = {},
                       .precise = input.precise,
                       .low = input.low};
    };
    expect_products_near(add, *device);
    const auto project = [depth = depth, every = every](OpMaker& m) -> Op {
      const Input input = random_input(m, 77, depth, every);
      return Projections{.y = m.empty(77, 512 + 128),
                         .x = input.x,
                         .first = m.random_bf16(512, depth, 0.2F),
                         .second = m.random_bf16(128, depth, 0.2F),
                         .third = {},
                         .gates = m.empty(77, 2 * 32),
                         .gate_first = m.random_bf16(32, depth, 0.2F),
                         .gate_second = m.random_bf16(32, depth, 0.2F),
                         .precise = input.precise,
                         .low = input.low};
    };
    expect_products_near(project, *device);
  }
}

TEST_F(CudaLowPart, IsRefusedByWeightsThatWereNotPrepared) {
  const Input input = random_input(maker, 20, 64);
  LinearAdd op{.y = maker.random(20, 32), .x = input.x, .w = maker.random_bf16(32, 64, 0.2F), .bias = {}};
  EXPECT_EQ(refusal_of(op), "");
  op.precise = input.precise;
  op.low = input.low;
  const std::string refusal = refusal_of(op);
  EXPECT_NE(refusal.find("a product whose input has a low part"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("weights prepared for it"), std::string::npos) << refusal;
}

TEST_F(CudaLowPart, EmbeddingsComeInEights) {
  const auto embed = [&](std::int64_t columns) {
    return Embed{.y = maker.empty(3, columns), .ids = maker.ints({1, 0, 2}), .table = maker.random_bf16(4, columns)};
  };
  EXPECT_EQ(refusal_of(embed(24)), "");
  const std::string refusal = refusal_of(embed(20));
  EXPECT_NE(refusal.find("embeddings of 20 columns: expected a multiple of 8"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace clef
