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
#include "base/f16.h"

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
  std::int64_t precise_from = 0;  // the first row whose second plane is not zero
};

struct Data {
  std::vector<std::uint16_t> x, w, up;
  std::vector<float> bias, row_scale, old;
  std::vector<int> precise;
};

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
  for (std::int64_t n = 0; n < c.columns; ++n) d.bias.push_back(uniform(random));
  for (std::int64_t i = 0; i < c.rows * c.columns; ++i) d.old.push_back(uniform(random));
  return d;
}

constexpr cuda::ProductTile kChosen{.columns = 0};  // by the library

// The outputs' bits, f32 or f16, and after them the gates'.
std::vector<std::byte> run(const Case& c, const Data& d, std::int64_t rows, cuda::ProductTile tile) {
  const OnDevice x(d.x), w(d.w), up(d.up);
  const OnDevice bias(d.bias), row_scale(d.row_scale);
  std::vector<std::byte> y(static_cast<std::size_t>(c.rows * c.columns) * (c.f32 ? 4 : 2), std::byte{0});
  if (c.f32) std::memcpy(y.data(), d.old.data(), y.size());
  const OnDevice out(y);
  const OnDevice gates(std::vector<float>(static_cast<std::size_t>(c.rows * c.gates + 1)));
  const OnDevice precise(d.precise);
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
  EXPECT_EQ(tile.columns == 0 ? launch_product_sm90(args, nullptr) : launch_product_sm90(args, tile, nullptr),
            cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<std::byte> result = out.values();
  const std::vector<float> beside = gates.values();
  const auto bytes = std::as_bytes(std::span(beside).first(static_cast<std::size_t>(c.rows * c.gates)));
  result.insert(result.end(), bytes.begin(), bytes.end());
  return result;
}

double value_at(const Case& c, const std::vector<std::byte>& y, std::int64_t i) {
  if (c.f32) {
    float value = 0;
    std::memcpy(&value, y.data() + i * 4, 4);
    return static_cast<double>(value);
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, y.data() + i * 2, 2);
  return static_cast<double>(f16_to_f32(bits));
}

double product(const Case& c, const Data& d, const std::vector<std::uint16_t>& w, std::int64_t r, std::int64_t n) {
  double sum = 0;
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
               ", follow " + std::to_string(static_cast<int>(c.follow)) + (c.f32 ? ", f32" : ", f16"));
  const Data d = make(c);
  const auto first = run(c, d, c.rows, kChosen);
  // A few elements against double; f32 sums of `depth` terms of about 1/3.
  std::mt19937 random(5);
  const double scale = 0.125 * std::sqrt(static_cast<double>(c.depth)) * (c.follow == Follow::swiglu ? 8 : 4);
  for (int i = 0; i < 400; ++i) {
    const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(c.rows * c.columns));
    const double want = expected(c, d, at / c.columns, at % c.columns);
    ASSERT_NEAR(value_at(c, first, at), want, (c.f32 ? 3e-6 : 6e-4) * std::max(std::abs(want), scale)) << "at " << at;
  }
  for (std::int64_t i = 0; i < c.rows * c.gates; ++i) {
    float value = 0;
    std::memcpy(&value, first.data() + c.rows * c.columns * (c.f32 ? 4 : 2) + i * 4, 4);
    const double want = product(c, d, d.w, i / c.gates, c.columns + i % c.gates);
    ASSERT_NEAR(static_cast<double>(value), want, 3e-6 * std::max(std::abs(want), scale)) << "gate " << i;
  }
  for (const cuda::ProductTile& tile : cuda::product_tiles(c.follow)) {
    EXPECT_TRUE(first == run(c, d, c.rows, tile)) << "tile of " << tile.rows << " x " << tile.columns << ", cluster of "
                                                  << tile.cluster_rows << " x " << tile.cluster_columns;
  }
  // The first rows alone have the bits that they have among all.
  const std::int64_t few = (c.rows + 2) / 3;
  const auto part = run(c, d, few, kChosen);
  const std::size_t bytes = static_cast<std::size_t>(few * c.columns) * (c.f32 ? 4 : 2);
  EXPECT_EQ(std::memcmp(first.data(), part.data(), bytes), 0) << few << " rows";
}

TEST(CudaProduct, AgreesWithDoubleAndWithItself) {
  const auto gpus = list_cuda_gpus();
  if (!gpus || gpus->front().major != 9) {
    const std::string reason = gpus ? "this GPU is not Hopper's" : gpus.error().message;
    std::printf("not checked here: %s\n", reason.c_str());
    GTEST_SKIP() << reason;
  }
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
  check({346, 1024, 512, Follow::store, false, 1, 64});
  check({346, 1000, 512, Follow::store, false, 1, 20});
  check({346, 1000, 512, Follow::store, true, 2, 8});
  check({700, 1024, 192, Follow::store, true, 2, 0, 500});
  check({700, 256, 192, Follow::add, true, 2, 0, 699});
  check({300, 320, 192, Follow::swiglu, false, 2, 0, 257});
}

}  // namespace
}  // namespace clef
