// Hopper's matrix product: against sums in double, and the same bits from every tile and for every number of rows.
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <random>
#include <span>
#include <vector>

#include "backend/cuda/cuda_device.h"
#include "backend/cuda/product_sm90.h"
#include "base/e4m3.h"
#include "base/f16.h"
#include "skip.h"

namespace clef {
namespace {

using cuda::Follow;
using cuda::ProductArgs;

template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : count_(values.size()) {
    EXPECT_EQ(cudaMalloc(&data_, count_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  T* get() const { return static_cast<T*>(data_); }
  std::vector<T> values() const {
    std::vector<T> result(count_);
    EXPECT_EQ(cudaMemcpy(result.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return result;
  }

 private:
  void* data_ = nullptr;
  std::size_t count_;
};

struct Case {
  std::int64_t rows, columns, depth;
  Follow follow = Follow::store;
  bool f32 = false;
  int planes = 1;
  std::int64_t gates = 0;         // columns of weights whose products go elsewhere
  std::int64_t precise_from = 0;  // the first row whose second plane or low part is not zero
  bool low = false;
};

struct Data {
  std::vector<std::uint16_t> x, w, up;
  std::vector<float> bias, row_scale, old;
  std::vector<int> precise;
  std::vector<std::uint8_t> x_low, w_low, up_low;  // E4M3
  std::vector<float> low_scales;
};

constexpr float kLowAlpha = 0x1p-6F;
// Of a row of E4M3: the copy engine wants a multiple of 16 bytes.
std::int64_t low_stride(const Case& c) { return (c.depth + 15) / 16 * 16; }

std::int64_t plane_depth(const Case& c) { return (c.depth + 63) / 64 * 64; }
std::int64_t x_stride(const Case& c) { return c.planes > 1 ? c.planes * plane_depth(c) : c.depth; }

Data make(const Case& c) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Data d;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    for (std::int64_t k = 0; k < x_stride(c); ++k) {
      const bool low = c.planes > 1 && k >= plane_depth(c);
      const bool pad = c.planes > 1 && (k % plane_depth(c) >= c.depth || (low && r < c.precise_from));
      d.x.push_back(pad ? std::uint16_t{0} : f32_to_f16(uniform(random) * (low ? 1e-3F : 1.0F)));
    }
    d.precise.push_back(r >= c.precise_from);
    d.row_scale.push_back(std::ldexp(1.0F, static_cast<int>(r % 5) - 2));
  }
  for (std::int64_t i = 0; i < (c.columns + c.gates) * c.depth; ++i) {
    d.w.push_back(f32_to_f16(uniform(random)));
    d.up.push_back(f32_to_f16(uniform(random)));
  }
  // The largest terms are a thousandth of x * w's: above what the sums may differ by, and below what is added after
  // them.
  const auto add_low_rows = [&](std::vector<std::uint8_t>& to, std::int64_t rows, std::int64_t first, float most) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t k = 0; k < low_stride(c); ++k) {
        // What lies past the depth must not be read.
        to.push_back(r < first ? std::uint8_t{0} : f32_to_e4m3(k < c.depth ? uniform(random) * most : 448.0F));
      }
    }
  };
  if (c.low) {
    add_low_rows(d.x_low, c.rows, c.precise_from, 250);
    add_low_rows(d.w_low, c.columns + c.gates, 0, 100);
    add_low_rows(d.up_low, c.columns + c.gates, 0, 100);
    for (std::int64_t r = 0; r < c.rows; ++r) {
      d.low_scales.push_back(r < c.precise_from ? 0.0F : std::ldexp(1.0F, static_cast<int>(r % 3) - 20));
    }
  }
  for (std::int64_t n = 0; n < c.columns; ++n) d.bias.push_back(uniform(random));
  for (std::int64_t i = 0; i < c.rows * c.columns; ++i) d.old.push_back(uniform(random));
  return d;
}

cuda::Handover next_handover() {
  static const OnDevice sums(std::vector<float>(cuda::Handover::kSums));
  static const OnDevice marks(std::vector<unsigned>(cuda::Handover::kMarks));
  static unsigned launches = 0;
  return {.sums = sums.get(), .marks = marks.get(), .launch = ++launches};
}

// Of the rows that are precise: what is said of others depends on the tile.
bool has_remainder(const Case& c) { return c.low && c.follow == Follow::swiglu && !c.f32; }

constexpr cuda::ProductTile kChosen{.columns = 0};  // by the library

// The outputs' bits, f32 or f16, and after them the gates' and the remainder's.
std::vector<std::byte> run(const Case& c, const Data& d, std::int64_t rows, cuda::ProductTile tile) {
  const OnDevice x(d.x), w(d.w), up(d.up);
  const OnDevice bias(d.bias), row_scale(d.row_scale);
  std::vector<std::byte> y(static_cast<std::size_t>(c.rows * c.columns) * (c.f32 ? 4 : 2), std::byte{0});
  if (c.f32) std::memcpy(y.data(), d.old.data(), y.size());
  const OnDevice out(y);
  const OnDevice gates(std::vector<float>(static_cast<std::size_t>(c.rows * c.gates + 1)));
  const OnDevice precise(d.precise);
  const OnDevice x_low(d.x_low), w_low(d.w_low), up_low(d.up_low);
  const OnDevice low_scales(d.low_scales);
  const OnDevice remainder(std::vector<std::uint16_t>(c.low ? static_cast<std::size_t>(c.rows * c.columns) : 0));
  ProductArgs args;
  args.x = reinterpret_cast<const __half*>(x.get());
  args.x_stride = x_stride(c);
  args.planes = c.planes;
  args.plane_depth = plane_depth(c);
  args.w = reinterpret_cast<const __half*>(w.get());
  args.w_up = reinterpret_cast<const __half*>(up.get());
  args.y = out.get();
  args.y_stride = c.columns;
  args.y_is_f32 = c.f32;
  args.rows = rows;
  args.columns = c.columns;
  args.depth = c.depth;
  args.alpha = 0.125F;
  if (c.planes > 1) args.row_scale = row_scale.get();
  if (c.follow != Follow::swiglu && c.gates == 0) args.bias = bias.get();
  if (c.precise_from > 0) args.precise = precise.get();
  if (c.gates > 0) {
    args.gates = gates.get();
    args.gates_stride = args.gate_columns = c.gates;
  }
  args.follow = c.follow;
  args.handover = next_handover();
  if (c.low) {
    args.low = x_low.get();
    args.low_stride = args.w_low_stride = low_stride(c);
    args.low_scales = low_scales.get();
    args.w_low = w_low.get();
    args.w_up_low = up_low.get();
    args.low_alpha = kLowAlpha;
    if (has_remainder(c)) {
      args.remainder = reinterpret_cast<__half*>(remainder.get());
      args.remainder_stride = c.columns;
    }
  }
  EXPECT_EQ(tile.columns == 0 ? launch_product_sm90(args, nullptr) : launch_product_sm90(args, tile, nullptr),
            cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<std::byte> result = out.values();
  const std::vector<float> beside = gates.values();
  const auto bytes = std::as_bytes(std::span(beside).first(static_cast<std::size_t>(c.rows * c.gates)));
  result.insert(result.end(), bytes.begin(), bytes.end());
  if (!has_remainder(c)) return result;
  const std::vector<std::uint16_t> left = remainder.values();
  const auto left_bytes = std::as_bytes(std::span(left).subspan(static_cast<std::size_t>(c.precise_from * c.columns)));
  result.insert(result.end(), left_bytes.begin(), left_bytes.end());
  return result;
}

double value_at(const Case& c, const std::vector<std::byte>& y, std::int64_t i) {
  if (c.f32) {
    float value = 0;
    std::memcpy(&value, y.data() + i * 4, 4);
    return static_cast<double>(value);
  }
  const auto half_at = [&](std::int64_t place) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, y.data() + place * 2, 2);
    return static_cast<double>(f16_to_f32(bits));
  };
  const std::int64_t of_precise = i - c.precise_from * c.columns;
  if (!has_remainder(c) || of_precise < 0) return half_at(i);
  return half_at(i) + half_at(c.rows * c.columns + of_precise) / static_cast<double>(cuda::kRemainderScale);
}
// Whether value_at has more than f16's bits.
bool is_exact(const Case& c, std::int64_t i) { return c.f32 || (has_remainder(c) && i >= c.precise_from * c.columns); }

double product(const Case& c, const Data& d, const std::vector<std::uint16_t>& w, std::int64_t r, std::int64_t n) {
  double sum = 0;
  if (c.low) {
    const std::vector<std::uint8_t>& w_low = &w == &d.up ? d.up_low : d.w_low;
    for (std::int64_t k = 0; k < c.depth; ++k) {
      sum += static_cast<double>(e4m3_to_f32(d.x_low[static_cast<std::size_t>(r * low_stride(c) + k)])) *
             static_cast<double>(e4m3_to_f32(w_low[static_cast<std::size_t>(n * low_stride(c) + k)]));
    }
    sum *= static_cast<double>(d.low_scales[static_cast<std::size_t>(r)] * kLowAlpha);
  }
  for (int p = 0; p < c.planes; ++p) {
    for (std::int64_t k = 0; k < c.depth; ++k) {
      sum += static_cast<double>(f16_to_f32(d.x[static_cast<std::size_t>(r * x_stride(c) + p * plane_depth(c) + k)])) *
             static_cast<double>(f16_to_f32(w[static_cast<std::size_t>(n * c.depth + k)]));
    }
  }
  return sum * 0.125 * (c.planes > 1 ? static_cast<double>(d.row_scale[static_cast<std::size_t>(r)]) : 1.0);
}

double expected(const Case& c, const Data& d, std::int64_t r, std::int64_t n) {
  const double value = product(c, d, d.w, r, n);
  const double bias = c.gates > 0 ? 0.0 : static_cast<double>(d.bias[static_cast<std::size_t>(n)]);
  switch (c.follow) {
    case Follow::swiglu:
      return value / (1 + std::exp(-value)) * product(c, d, d.up, r, n);
    case Follow::add:
      return value + static_cast<double>(d.old[static_cast<std::size_t>(r * c.columns + n)]) + bias;
    case Follow::gelu_tanh: {
      const double x = value + bias;
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    }
    default:
      break;
  }
  return value + bias;
}

void check(const Case& c) {
  SCOPED_TRACE(std::to_string(c.rows) + " x " + std::to_string(c.columns) + " x " + std::to_string(c.depth) +
               ", follow " + std::to_string(static_cast<int>(c.follow)) + (c.f32 ? ", f32" : ", f16") +
               (c.low ? ", low part" : ""));
  const Data d = make(c);
  const auto first = run(c, d, c.rows, kChosen);
  // A few elements against double; f32 sums of `depth` terms of about 1/3.
  std::mt19937 random(5);
  const double scale = 0.125 * std::sqrt(static_cast<double>(c.depth)) * (c.follow == Follow::swiglu ? 8 : 4);
  for (int i = 0; i < 400; ++i) {
    const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(c.rows * c.columns));
    const double want = expected(c, d, at / c.columns, at % c.columns);
    ASSERT_NEAR(value_at(c, first, at), want, (is_exact(c, at) ? 3e-6 : 6e-4) * std::max(std::abs(want), scale))
        << "at " << at;
  }
  for (std::int64_t i = 0; i < c.rows * c.gates; ++i) {
    float value = 0;
    std::memcpy(&value, first.data() + c.rows * c.columns * (c.f32 ? 4 : 2) + i * 4, 4);
    const double want = product(c, d, d.w, i / c.gates, c.columns + i % c.gates);
    ASSERT_NEAR(static_cast<double>(value), want, 3e-6 * std::max(std::abs(want), scale)) << "gate " << i;
  }
  for (const cuda::ProductTile& tile : cuda::product_tiles(c.follow)) {
    EXPECT_TRUE(first == run(c, d, c.rows, tile))
        << "tile of " << tile.rows << " x " << tile.columns << ", cluster of " << tile.cluster_rows << " x "
        << tile.cluster_columns << (tile.shares ? ", shared" : "");
  }
  // The first rows alone have the bits that they have among all.
  const std::int64_t few = (c.rows + 2) / 3;
  const auto part = run(c, d, few, kChosen);
  const std::size_t bytes = static_cast<std::size_t>(few * c.columns) * (c.f32 ? 4 : 2);
  EXPECT_EQ(std::memcmp(first.data(), part.data(), bytes), 0) << few << " rows";
  // Rows that are not precise have the bits that they have where nobody is.
  if (!c.low || c.precise_from == 0) return;
  Case plain = c;
  plain.low = false;
  const auto without = run(plain, d, c.rows, kChosen);
  const std::size_t not_precise = static_cast<std::size_t>(c.precise_from * c.columns) * (c.f32 ? 4 : 2);
  EXPECT_EQ(std::memcmp(first.data(), without.data(), not_precise), 0) << "beside precise rows";
}

std::string no_hopper() {
  const auto gpus = list_cuda_gpus();
  if (!gpus) return gpus.error().message;
  return gpus->front().major == 9 ? "" : "this GPU is not Hopper's";
}

// Before it asks anything of a GPU, so that this needs none.
TEST(CudaProduct, RefusesWhatItCannotDo) {
  alignas(16) static std::byte memory[64];
  ProductArgs good;
  good.x = reinterpret_cast<const __half*>(memory);
  good.w = good.w_up = good.x;
  good.y = memory;
  good.x_stride = good.depth = 64;
  good.columns = good.y_stride = 16;  // and no rows: nothing is read
  const auto refused = [&](auto change, cuda::ProductTile tile = {}) {
    ProductArgs args = good;
    change(args);
    return launch_product_sm90(args, tile, nullptr) == cudaErrorInvalidValue;
  };
  const auto with_low = [&](ProductArgs& args) {
    args.low = args.w_low = args.w_up_low = reinterpret_cast<const std::uint8_t*>(memory);
    args.low_scales = reinterpret_cast<const float*>(memory);
    args.low_stride = args.w_low_stride = 64;
  };
  EXPECT_FALSE(refused([](ProductArgs&) {}));
  EXPECT_FALSE(refused(with_low));
  EXPECT_TRUE(refused([](ProductArgs& args) { args.depth = 63; }));
  EXPECT_TRUE(refused([](ProductArgs&) {}, {.shares = true})) << "sharing without a place to hand over";
  const auto low_but = [&](auto change) {
    return refused([&](ProductArgs& args) {
      with_low(args);
      change(args);
    });
  };
  EXPECT_TRUE(low_but([](ProductArgs& args) { args.planes = 2; }));
  EXPECT_TRUE(low_but([](ProductArgs& args) { args.low_scales = nullptr; }));
  EXPECT_TRUE(low_but([](ProductArgs& args) { args.w_low = nullptr; }));
  EXPECT_TRUE(low_but([](ProductArgs& args) { args.low_stride = 72; }));
  EXPECT_TRUE(low_but([](ProductArgs& args) { args.w_low_stride = 8; }));
  EXPECT_TRUE(low_but([](ProductArgs& args) { ++args.low; }));
  EXPECT_TRUE(low_but([](ProductArgs& args) { args.follow = Follow::swiglu, args.w_up_low = nullptr; }));
  EXPECT_TRUE(low_but([](ProductArgs& args) { args.remainder = static_cast<__half*>(args.y); })) << "not of swiglu";
  EXPECT_TRUE(refused([](ProductArgs& args) { args.remainder = static_cast<__half*>(args.y); })) << "without low";
}

TEST(CudaProduct, AgreesWithDoubleAndWithItself) {
  SKIP_BECAUSE(no_hopper());
  for (const bool f32 : {false, true}) {
    check({300, 776, 328, Follow::store, f32});
    check({300, 776, 328, Follow::swiglu, f32});
    check({300, 784, 328, Follow::store, f32});
    check({300, 784, 328, Follow::swiglu, f32});
    check({1, 1, 8, Follow::store, f32});
    check({3, 5, 1000, Follow::store, f32});
    check({129, 260, 64, Follow::store, f32});
    check({700, 512, 4096, Follow::store, f32});
    check({50, 300, 200, Follow::store, f32, 2});
    check({50, 320, 200, Follow::swiglu, f32, 2});
  }
  check({324, 1152, 320, Follow::gelu_tanh, false});
  check({257, 512, 1024, Follow::add, true});
  check({3000, 1024, 256, Follow::add, true});
  check({33, 72, 520, Follow::add, true, 2});
  // More tiles than multiprocessors, so that some are shared.
  check({2900, 1104, 136, Follow::add, true});
  check({2900, 1104, 648, Follow::store, false, 1, 32});
  check({2900, 784, 328, Follow::swiglu, false});
  check({2900, 1104, 328, Follow::add, true, 2, 0, 2500});
  check({346, 1024, 512, Follow::store, false, 1, 64});
  check({346, 1000, 512, Follow::store, false, 1, 20});
  check({346, 1000, 512, Follow::store, true, 2, 8});
  check({700, 1024, 192, Follow::store, true, 2, 0, 500});
  check({700, 256, 192, Follow::add, true, 2, 0, 699});
  check({300, 320, 192, Follow::swiglu, false, 2, 0, 257});
  for (const bool f32 : {false, true}) {
    check({.rows = 300, .columns = 776, .depth = 328, .follow = Follow::store, .f32 = f32, .low = true});
    check({.rows = 3, .columns = 5, .depth = 1000, .follow = Follow::store, .f32 = f32, .low = true});
    check({.rows = 1, .columns = 1, .depth = 8, .follow = Follow::store, .f32 = f32, .low = true});
    check({.rows = 346,
           .columns = 512,
           .depth = 4096,
           .follow = Follow::store,
           .f32 = f32,
           .precise_from = 345,
           .low = true});
    check({.rows = 300,
           .columns = 320,
           .depth = 192,
           .follow = Follow::swiglu,
           .f32 = f32,
           .precise_from = 257,
           .low = true});
    check({.rows = 257, .columns = 776, .depth = 328, .follow = Follow::swiglu, .f32 = f32, .low = true});
  }
  check({.rows = 346, .columns = 1000, .depth = 520, .f32 = true, .gates = 8, .precise_from = 130, .low = true});
  check({.rows = 346, .columns = 1024, .depth = 512, .f32 = true, .gates = 64, .precise_from = 200, .low = true});
  check({.rows = 3000,
         .columns = 1024,
         .depth = 264,
         .follow = Follow::add,
         .f32 = true,
         .precise_from = 2999,
         .low = true});
  check({.rows = 33, .columns = 72, .depth = 520, .follow = Follow::add, .f32 = true, .low = true});
}

}  // namespace
}  // namespace clef
