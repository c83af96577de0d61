// Hopper's matrix product: against sums in double, and the same bits from every tile and for every number of rows.
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
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
  std::int64_t gates = 0;  // columns of weights whose products go elsewhere
  bool e4m3 = false;
  bool scattered = false;  // with add: into every other row of y and gates
  int precise_every = 0;   // with swiglu: one row of so many has low sums and leaves a remainder
};

struct Data {
  std::vector<std::uint16_t> x, w, up;
  std::vector<float> bias, row_scale, old, old_gates;
  std::vector<std::uint8_t> x8, w8;  // E4M3
  std::vector<int> to_rows, places;
  std::vector<std::uint16_t> low_sums;
};

// Of a row of E4M3: the copy engine wants a multiple of 16 bytes.
std::int64_t stride8(const Case& c) { return (c.depth + 15) / 16 * 16; }

std::int64_t y_rows(const Case& c) { return c.scattered ? 2 * c.rows + 1 : c.rows; }
std::int64_t y_row(const Case& c, std::int64_t r) { return c.scattered ? 2 * r + 1 : r; }
std::int64_t precise_rows(const Case& c) {
  return c.precise_every > 0 ? (c.rows + c.precise_every - 1) / c.precise_every : 0;
}
std::int64_t place_of(const Case& c, std::int64_t r) {
  return c.precise_every > 0 && r % c.precise_every == 0 ? r / c.precise_every : -1;
}

std::int64_t plane_depth(const Case& c) { return (c.depth + 63) / 64 * 64; }
std::int64_t x_stride(const Case& c) { return c.planes > 1 ? c.planes * plane_depth(c) : c.depth; }

Data make(const Case& c) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Data d;
  for (std::int64_t r = 0; r < c.rows; ++r) {
    for (std::int64_t k = 0; k < x_stride(c); ++k) {
      const bool low = c.planes > 1 && k >= plane_depth(c);
      const bool pad = c.planes > 1 && k % plane_depth(c) >= c.depth;
      d.x.push_back(pad ? std::uint16_t{0} : f32_to_f16(uniform(random) * (low ? 1e-3F : 1.0F)));
    }
    d.to_rows.push_back(static_cast<int>(y_row(c, r)));
    d.places.push_back(static_cast<int>(place_of(c, r)));
    d.row_scale.push_back(std::ldexp(1.0F, static_cast<int>(r % 5) - 2));
  }
  for (std::int64_t i = 0; i < (c.columns + c.gates) * c.depth; ++i) {
    d.w.push_back(f32_to_f16(uniform(random)));
    d.up.push_back(f32_to_f16(uniform(random)));
  }
  const auto append_e4m3 = [&](std::vector<std::uint8_t>& to, std::int64_t rows) {
    for (std::int64_t i = 0; i < rows * stride8(c); ++i) {
      // What lies past the depth must not be read.
      to.push_back(f32_to_e4m3(i % stride8(c) < c.depth ? uniform(random) : 448.0F));
    }
  };
  if (c.e4m3) append_e4m3(d.x8, c.rows);
  if (c.e4m3) append_e4m3(d.w8, c.columns + c.gates);
  for (std::int64_t i = 0; i < precise_rows(c) * 2 * c.columns; ++i) {
    d.low_sums.push_back(f32_to_f16(uniform(random) * cuda::kRemainderScale * 0.25F));
  }
  for (std::int64_t n = 0; n < c.columns; ++n) d.bias.push_back(uniform(random));
  for (std::int64_t i = 0; i < y_rows(c) * c.columns; ++i) d.old.push_back(uniform(random));
  for (std::int64_t i = 0; i < y_rows(c) * c.gates; ++i) d.old_gates.push_back(uniform(random));
  return d;
}

cuda::Handover next_handover() {
  static const OnDevice sums(std::vector<float>(cuda::Handover::kSums));
  static const OnDevice marks(std::vector<unsigned>(cuda::Handover::kMarks));
  static unsigned launches = 0;
  return {.sums = sums.get(), .marks = marks.get(), .launch = ++launches};
}

constexpr cuda::ProductTile kChosen{.columns = 0};  // by the library

bool has_row_scale(const Case& c) { return c.planes > 1 || c.e4m3; }

// The outputs' bits, f32 or f16, and after them the gates' and the remainder's.
std::vector<std::byte> run(const Case& c, const Data& d, std::int64_t rows, cuda::ProductTile tile) {
  const OnDevice x(d.x), w(d.w), up(d.up), low_sums(d.low_sums);
  const OnDevice x8(d.x8), w8(d.w8);
  const OnDevice bias(d.bias), row_scale(d.row_scale);
  const OnDevice to_rows(d.to_rows), places(d.places);
  std::vector<std::byte> y(static_cast<std::size_t>(y_rows(c) * c.columns) * (c.f32 ? 4 : 2), std::byte{0});
  if (c.f32) std::memcpy(y.data(), d.old.data(), y.size());
  const OnDevice out(y);
  const OnDevice gates(d.old_gates);
  const OnDevice remainder(std::vector<std::uint16_t>(static_cast<std::size_t>(precise_rows(c) * c.columns)));
  ProductArgs args;
  args.x = x.get();
  args.x_stride = x_stride(c);
  args.planes = c.planes;
  args.plane_depth = plane_depth(c);
  args.w = w.get();
  args.w_up = up.get();
  if (c.e4m3) {
    args.is_e4m3 = true;
    args.x = x8.get();
    args.w = w8.get();
    args.x_stride = args.w_stride = stride8(c);
  }
  args.y = out.get();
  args.y_stride = c.columns;
  args.y_is_f32 = c.f32;
  args.rows = rows;
  args.columns = c.columns;
  args.depth = c.depth;
  args.alpha = 0.125F;
  if (has_row_scale(c)) args.row_scale = row_scale.get();
  if (c.follow != Follow::swiglu && c.gates == 0) args.bias = bias.get();
  if (c.scattered) args.to_rows = to_rows.get();
  if (c.precise_every > 0) {
    if (c.precise_every > 1) args.places = places.get();
    args.low_sums = reinterpret_cast<const __half*>(low_sums.get());
    args.remainder = reinterpret_cast<__half*>(remainder.get());
  }
  if (c.gates > 0) {
    args.gates = gates.get();
    args.gates_stride = args.gate_columns = c.gates;
  }
  args.follow = c.follow;
  args.handover = next_handover();
  EXPECT_EQ(tile.columns == 0 ? launch_product_sm90(args, nullptr) : launch_product_sm90(args, tile, nullptr),
            cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<std::byte> result = out.values();
  const auto append = [&](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    result.insert(result.end(), bytes.begin(), bytes.end());
  };
  append(gates.values());
  append(remainder.values());
  return result;
}

// All that can do it; no product is started.
std::vector<cuda::ProductTile> tiles_for(const Case& c) {
  alignas(16) static std::byte memory[2][16];
  ProductArgs args;
  args.x = args.w = memory[0];
  args.w_up = memory[1];
  args.y = memory[0];
  args.is_e4m3 = c.e4m3;
  args.y_is_f32 = c.f32;
  args.columns = args.y_stride = c.columns;
  args.gate_columns = args.gates_stride = c.gates;
  args.follow = c.follow;
  return cuda::product_tiles(args);
}

double half_at(const std::vector<std::byte>& y, std::int64_t place) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, y.data() + place * 2, 2);
  return static_cast<double>(f16_to_f32(bits));
}
double float_at(const std::vector<std::byte>& y, std::int64_t byte) {
  float value = 0;
  std::memcpy(&value, y.data() + byte, 4);
  return static_cast<double>(value);
}

// Of row r of x, with what f16 lost of it where there is a remainder.
double value_at(const Case& c, const std::vector<std::byte>& y, std::int64_t r, std::int64_t n) {
  const std::int64_t at = y_row(c, r) * c.columns + n, place = place_of(c, r);
  if (c.f32) return float_at(y, at * 4);
  if (place < 0) return half_at(y, at);
  return half_at(y, at) + half_at(y, (c.rows + place) * c.columns + n) / static_cast<double>(cuda::kRemainderScale);
}
// Whether value_at has more than f16's bits.
bool is_exact(const Case& c, std::int64_t r) { return c.f32 || place_of(c, r) >= 0; }

double product(const Case& c, const Data& d, bool is_up, std::int64_t r, std::int64_t n) {
  double sum = 0;
  const std::vector<std::uint16_t>& w = is_up ? d.up : d.w;
  for (int p = 0; p < c.planes; ++p) {
    for (std::int64_t k = 0; k < c.depth; ++k) {
      if (c.e4m3) {
        sum += static_cast<double>(e4m3_to_f32(d.x8[static_cast<std::size_t>(r * stride8(c) + k)])) *
               static_cast<double>(e4m3_to_f32(d.w8[static_cast<std::size_t>(n * stride8(c) + k)]));
        continue;
      }
      sum += static_cast<double>(f16_to_f32(d.x[static_cast<std::size_t>(r * x_stride(c) + p * plane_depth(c) + k)])) *
             static_cast<double>(f16_to_f32(w[static_cast<std::size_t>(n * c.depth + k)]));
    }
  }
  sum *= 0.125 * (has_row_scale(c) ? static_cast<double>(d.row_scale[static_cast<std::size_t>(r)]) : 1.0);
  if (place_of(c, r) < 0) return sum;
  const std::int64_t at = (place_of(c, r) * 2 + (is_up ? 1 : 0)) * c.columns + n;
  return sum + static_cast<double>(f16_to_f32(d.low_sums[static_cast<std::size_t>(at)]) / cuda::kRemainderScale);
}

double expected(const Case& c, const Data& d, std::int64_t r, std::int64_t n) {
  const double value = product(c, d, false, r, n);
  const double bias = c.gates > 0 ? 0.0 : static_cast<double>(d.bias[static_cast<std::size_t>(n)]);
  switch (c.follow) {
    case Follow::swiglu:
      return value / (1 + std::exp(-value)) * product(c, d, true, r, n);
    case Follow::add:
      return value + static_cast<double>(d.old[static_cast<std::size_t>(y_row(c, r) * c.columns + n)]) + bias;
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
               (c.e4m3 ? ", E4M3" : "") + (c.scattered ? ", scattered" : "") +
               (c.precise_every > 0 ? ", precise rows" : ""));
  const Data d = make(c);
  const auto first = run(c, d, c.rows, kChosen);
  // A few elements against double; f32 sums of `depth` terms of about 1/3. Of E4M3, tensor cores cut a sum to 13 bits
  // after its point at each step of 32.
  std::mt19937 random(5);
  const double scale = 0.125 * std::sqrt(static_cast<double>(c.depth)) * (c.follow == Follow::swiglu ? 8 : 4);
  const double exact_limit = c.e4m3 ? 0x1p-13 * std::ceil(static_cast<double>(c.depth) / 32) : 3e-6;
  for (int i = 0; i < 400; ++i) {
    const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(c.rows * c.columns));
    const std::int64_t r = at / c.columns, n = at % c.columns;
    const double want = expected(c, d, r, n);
    ASSERT_NEAR(value_at(c, first, r, n), want,
                (is_exact(c, r) ? exact_limit : 6e-4 + exact_limit) * std::max(std::abs(want), scale))
        << "row " << r << ", column " << n;
  }
  for (std::int64_t i = 0; i < c.rows * c.gates; ++i) {
    const std::int64_t r = i / c.gates, n = i % c.gates, at = y_row(c, r) * c.gates + n;
    const double old = c.follow == Follow::add ? static_cast<double>(d.old_gates[static_cast<std::size_t>(at)]) : 0.0;
    const double want = old + product(c, d, false, r, c.columns + n);
    ASSERT_NEAR(float_at(first, y_rows(c) * c.columns * (c.f32 ? 4 : 2) + at * 4), want,
                exact_limit * std::max(std::abs(want), scale))
        << "gate " << i;
  }
  // Rows between those that it goes to are as they were.
  for (std::int64_t r = 0; c.scattered && r < y_rows(c); r += 2) {
    const auto bytes = static_cast<std::size_t>(c.columns) * 4;
    EXPECT_EQ(std::memcmp(first.data() + static_cast<std::size_t>(r) * bytes,
                          d.old.data() + static_cast<std::size_t>(r * c.columns), bytes),
              0)
        << "row " << r;
  }
  for (const cuda::ProductTile& tile : tiles_for(c)) {
    EXPECT_TRUE(first == run(c, d, c.rows, tile))
        << (tile.turned ? "turned tile of " : "tile of ") << tile.rows << " x " << tile.columns << ", cluster of "
        << tile.cluster_rows << " x " << tile.cluster_columns << (tile.shares ? ", shared" : "");
  }
  // The first rows alone have the bits that they have among all.
  const std::int64_t few = (c.rows + 2) / 3;
  const auto part = run(c, d, few, kChosen);
  const std::size_t row_bytes = static_cast<std::size_t>(c.columns) * (c.f32 ? 4 : 2);
  EXPECT_EQ(std::memcmp(first.data(), part.data(), static_cast<std::size_t>(y_row(c, few)) * row_bytes), 0)
      << few << " rows";
  // Rows that are not precise have the bits that they have where nobody is.
  if (c.precise_every == 0) return;
  Case plain = c;
  plain.precise_every = 0;
  const auto without = run(plain, d, c.rows, kChosen);
  for (std::int64_t r = 0; r < c.rows; ++r) {
    if (place_of(c, r) >= 0) continue;
    const std::size_t at = static_cast<std::size_t>(r) * row_bytes;
    EXPECT_EQ(std::memcmp(first.data() + at, without.data() + at, row_bytes), 0) << "row " << r << ", not precise";
  }
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
  good.x = memory;
  good.w = good.w_up = good.x;
  good.y = memory;
  good.x_stride = good.depth = 64;
  good.columns = good.y_stride = 16;  // and no rows: nothing is read
  const auto refused = [&](auto change, cuda::ProductTile tile = {}) {
    ProductArgs args = good;
    change(args);
    return launch_product_sm90(args, tile, nullptr) == cudaErrorInvalidValue;
  };
  const auto* halves = reinterpret_cast<const __half*>(memory);
  const auto* numbers = reinterpret_cast<const int*>(memory);
  const auto with_e4m3 = [](ProductArgs& args) { args.is_e4m3 = true; };
  const auto with_places = [&](ProductArgs& args) {
    args.follow = Follow::swiglu;
    args.places = numbers;
    args.low_sums = halves;
    args.remainder = reinterpret_cast<__half*>(memory);
  };
  EXPECT_FALSE(refused([](ProductArgs&) {}));
  EXPECT_FALSE(refused(with_e4m3));
  EXPECT_FALSE(refused(with_places));
  EXPECT_TRUE(refused([](ProductArgs& args) { args.depth = 63; }));
  EXPECT_TRUE(refused([](ProductArgs& args) { args.w_stride = 60; })) << "less than the depth";
  EXPECT_TRUE(refused([](ProductArgs&) {}, {.shares = true})) << "sharing without a place to hand over";
  const cuda::ProductTile turned{.rows = 88, .columns = 128, .turned = true};
  EXPECT_FALSE(refused([](ProductArgs&) {}, turned));
  EXPECT_TRUE(refused([](ProductArgs&) {}, {.rows = 88, .columns = 128, .cluster_columns = 2, .turned = true}));
  EXPECT_TRUE(refused([](ProductArgs& args) { args.columns = 24; }, turned)) << "not in sixteens";
  EXPECT_TRUE(refused([](ProductArgs& args) { args.y_stride = 20; }, turned)) << "rows of y not on whole words";
  EXPECT_TRUE(refused(
      [](ProductArgs& args) {
        args.follow = Follow::swiglu;
        args.y_is_f32 = true;
      },
      turned));
  EXPECT_TRUE(refused([](ProductArgs& args) { args.follow = Follow::swiglu; }, turned)) << "one matrix for both";
  EXPECT_TRUE(refused([&](ProductArgs& args) { args.to_rows = numbers; })) << "not with add";
  EXPECT_TRUE(refused([&](ProductArgs& args) { args.places = numbers; })) << "without low sums";
  EXPECT_TRUE(refused([&](ProductArgs& args) { args.remainder = static_cast<__half*>(args.y); })) << "without low sums";
  const auto but = [&](auto with, auto change) {
    return refused([&](ProductArgs& args) {
      with(args);
      change(args);
    });
  };
  EXPECT_TRUE(but(with_e4m3, [](ProductArgs& args) { args.planes = 2; }));
  EXPECT_TRUE(but(with_e4m3, [](ProductArgs& args) { args.x_stride = 72; }));
  EXPECT_TRUE(but(with_e4m3, [](ProductArgs& args) { args.w_stride = 72; }));
  EXPECT_TRUE(but(with_e4m3, [](ProductArgs& args) { args.depth = 56; })) << "and so the stride";
  EXPECT_TRUE(but(with_e4m3, [](ProductArgs& args) { args.x = static_cast<const std::byte*>(args.x) + 1; }));
  EXPECT_TRUE(but(with_e4m3, [](ProductArgs& args) { args.follow = Follow::swiglu; }));
  EXPECT_FALSE(but(with_places, [](ProductArgs& args) { args.places = nullptr; })) << "all rows";
  EXPECT_TRUE(but(with_places, [](ProductArgs& args) { args.low_sums = nullptr; }));
  EXPECT_TRUE(but(with_places, [](ProductArgs& args) { args.remainder = nullptr; }));
  EXPECT_TRUE(but(with_places, [](ProductArgs& args) { args.y_is_f32 = true; }));
  EXPECT_TRUE(but(with_places, [](ProductArgs& args) { args.follow = Follow::store; }));
}

TEST(CudaProduct, TilesSuitTheNumberOfRows) {
  alignas(16) static std::byte memory[2][16];
  ProductArgs args;
  args.x = args.w = args.y = memory[0];
  args.w_up = memory[1];
  for (const Follow follow : {Follow::store, Follow::add, Follow::swiglu}) {
    for (const std::int64_t columns : {40, 1152, 4096, 12288}) {
      for (std::int64_t rows = 1; rows < 20000; rows += 1 + rows / 9) {
        args.follow = follow;
        args.y_is_f32 = follow == Follow::add;
        args.rows = rows;
        args.columns = args.y_stride = columns;
        args.depth = args.x_stride = columns == 4096 ? 12288 : 4096;
        args.handover = {};
        const auto tiles = cuda::product_tiles(args);
        const cuda::ProductTile tile = cuda::chosen_tile(args);
        ASSERT_NE(std::find(tiles.begin(), tiles.end(), tile), tiles.end()) << rows << " x " << columns;
        EXPECT_FALSE(tile.shares) << "without a place to hand over";
        EXPECT_FALSE(tile.turned && (rows > 1024 || columns % 16 != 0)) << rows << " x " << columns;
        // No tile for more rows than there are, where one for fewer would do.
        EXPECT_TRUE(rows > 64 || tile.rows <= 128) << rows << " x " << columns << ": " << tile.rows;
      }
    }
  }
  // 346 rows of a deep product are four tiles of 88, whose blocks in pairs share the weights.
  args.follow = Follow::add;
  args.y_is_f32 = true;
  args.rows = 346;
  args.columns = args.y_stride = 4096;
  args.depth = args.x_stride = 12288;
  const cuda::ProductTile tile = cuda::chosen_tile(args);
  EXPECT_TRUE(tile.turned);
  EXPECT_EQ(tile.rows, 88);
  EXPECT_EQ(tile.cluster_rows, 2);
  // Of many rows tiles are large, or blocks share what they read.
  for (args.rows = 4096; args.rows < 70000; args.rows += args.rows / 3) {
    const cuda::ProductTile large = cuda::chosen_tile(args);
    EXPECT_TRUE(large.rows == 256 || large.cluster_rows * large.cluster_columns > 1) << args.rows << " rows";
  }
  // 64 rows of low parts are read by as many multiprocessors as there can be.
  args.rows = 64;
  args.is_e4m3 = true;
  const cuda::ProductTile low = cuda::chosen_tile(args);
  EXPECT_EQ(low.rows, 64);
  EXPECT_EQ(low.columns, 32);
  EXPECT_FALSE(low.turned);
}

// 160 columns of f16 begin or end inside a line of the cache, 160 of f32 and 192 of f16 do not: where many rows make
// power dear, the first are for products that are added.
TEST(CudaProduct, TilesOfManyRowsFillLines) {
  alignas(16) static std::byte memory[16];
  static float sums[4];
  ProductArgs args;
  args.x = args.w = args.y = memory;
  args.handover.sums = sums;
  args.rows = 16311;
  args.columns = args.y_stride = 10240;
  args.depth = args.x_stride = 4096;
  EXPECT_EQ(cuda::chosen_tile(args).columns, 192);
  args.follow = Follow::add;
  args.y_is_f32 = true;
  args.columns = args.y_stride = 5120;
  args.depth = args.x_stride = 17408;
  EXPECT_EQ(cuda::chosen_tile(args).columns, 160);
}

// A pair of 17,408 at 310 rows is 2.8 rounds of turned tiles, which are not worth sharing out, since that is dearer in
// a model than alone; 14,336 columns of one matrix are 1.1 rounds, which are.
TEST(CudaProduct, TurnedTilesAreSharedOutWhereMuchIsSaved) {
  alignas(16) static std::byte weights[2][16];
  static float sums[4];
  ProductArgs args;
  args.x = args.w = args.y = weights[0];
  args.w_up = weights[1];
  args.handover.sums = sums;
  args.rows = 310;
  args.depth = args.x_stride = 5120;
  args.columns = args.y_stride = 17408;
  args.follow = Follow::swiglu;
  const cuda::ProductTile pair = cuda::chosen_tile(args);
  EXPECT_TRUE(pair.turned && !pair.shares) << pair.rows << " x " << pair.columns;
  EXPECT_EQ(pair.columns, 192);
  args.follow = Follow::store;
  args.columns = args.y_stride = 14336;
  const cuda::ProductTile one = cuda::chosen_tile(args);
  EXPECT_TRUE(one.turned && one.shares) << one.rows << " x " << one.columns;
}

// Products that are alike but for one thing, one after the other.
TEST(CudaProduct, ATileThatIsRememberedIsTheProductsOwn) {
  alignas(16) static std::byte memory[2][16];
  static float sums[4];
  for (int kind = 0; kind < 64; ++kind) {
    const auto is = [&](int bit) { return (kind >> bit) % 2 != 0; };
    ProductArgs args;
    args.x = args.w = args.y = memory[0];
    args.w_up = memory[1];
    args.rows = 64;
    args.columns = is(0) ? 4096 : 4100;
    args.y_stride = args.columns;
    args.is_e4m3 = is(1);
    args.depth = args.x_stride = is(1) ? 12288 : 6144;  // as many steps
    args.y_is_f32 = is(2);
    args.follow = is(3) && !is(1) ? Follow::swiglu : is(2) ? Follow::add : is(4) ? Follow::gelu_tanh : Follow::store;
    args.handover.sums = is(5) ? sums : nullptr;
    EXPECT_EQ(cuda::remembered_tile(args), cuda::chosen_tile(args)) << kind;
  }
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
  check({2900, 1104, 328, Follow::add, true, 2});
  check({346, 1024, 512, Follow::store, false, 1, 64});
  check({346, 1000, 512, Follow::store, false, 1, 20});
  check({346, 1000, 512, Follow::store, true, 2, 8});
  // Fewer rows than a tile has, and just more; fewer columns than a tile has.
  for (const std::int64_t rows : {1, 7, 63, 65, 89, 177, 193}) {
    check({rows, 272, 200, Follow::store, false, 1, 16});
    check({rows, 48, 136, Follow::swiglu, false});
    check({rows, 336, 136, Follow::swiglu, false});
  }
  check({193, 1296, 264, Follow::gelu_tanh, false});
  check({89, 400, 264, Follow::add, true, 1, 32});
  check({700, 1024, 192, Follow::store, true, 2});
  check({700, 256, 192, Follow::add, true, 2});
  check({300, 320, 192, Follow::swiglu, false, 2});
}

TEST(CudaProduct, OfE4m3AgreesWithDoubleAndWithItself) {
  SKIP_BECAUSE(no_hopper());
  for (const bool f32 : {false, true}) {
    check({.rows = 300, .columns = 776, .depth = 328, .f32 = f32, .e4m3 = true});
    check({.rows = 300, .columns = 784, .depth = 328, .f32 = f32, .e4m3 = true});
    check({.rows = 3, .columns = 5, .depth = 1000, .f32 = f32, .e4m3 = true});
    check({.rows = 1, .columns = 1, .depth = 8, .f32 = f32, .e4m3 = true});
    check({.rows = 346, .columns = 512, .depth = 4096, .f32 = f32, .e4m3 = true});
    check({.rows = 2900, .columns = 1104, .depth = 648, .f32 = f32, .gates = 32, .e4m3 = true});
  }
  for (const bool scattered : {false, true}) {
    const auto add = [&](std::int64_t rows, std::int64_t columns, std::int64_t depth, std::int64_t gates) {
      check({.rows = rows,
             .columns = columns,
             .depth = depth,
             .follow = Follow::add,
             .f32 = true,
             .gates = gates,
             .e4m3 = true,
             .scattered = scattered});
    };
    add(150, 1000, 520, 8);
    add(346, 1024, 512, 64);
    add(1500, 1024, 264, 0);
    add(33, 72, 520, 0);
  }
}

TEST(CudaProduct, TakesLowSumsAndLeavesRemainders) {
  SKIP_BECAUSE(no_hopper());
  check({.rows = 300, .columns = 320, .depth = 192, .follow = Follow::swiglu, .precise_every = 3});
  check({.rows = 257, .columns = 776, .depth = 328, .follow = Follow::swiglu, .precise_every = 3});
  check({.rows = 150, .columns = 512, .depth = 328, .follow = Follow::swiglu, .precise_every = 1});
  check({.rows = 2900, .columns = 784, .depth = 328, .follow = Follow::swiglu, .precise_every = 3});
}

}  // namespace
}  // namespace clef
