// The matrix product alone, BF16 weights times float32 rows.
#include <cstdio>
#include <cstring>

#include "backend/cpu/cpu_device.h"
#include "base/bf16.h"
#include "clef-bench/bench.h"
#include "ops/cost.h"

namespace clef::bench {

namespace {

struct Matrix {
  std::unique_ptr<Buffer> buffer;
  Tensor tensor;
};

// Values in [-1, 1) from a fixed sequence.
Matrix make(Device& device, std::int64_t rows, std::int64_t cols, DType dtype) {
  Matrix m;
  m.buffer = std::move(device.allocate(static_cast<std::size_t>(rows * cols) * size_of(dtype))).value();
  m.tensor = {.buffer = m.buffer.get(), .rows = rows, .cols = cols, .stride = cols, .dtype = dtype};
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    state = state * 1664525U + 1013904223U;
    const float value = static_cast<float>(state >> 8) * 0x1p-23F - 1.0F;
    if (dtype == DType::f32) {
      m.tensor.row<float>(0)[i] = value;
    } else {
      m.tensor.row<std::uint16_t>(0)[i] = f32_to_bf16(value);
    }
  }
  return m;
}

}  // namespace

int bench_linear(const Settings& settings, const std::vector<int>& rows) {
  struct Shape {
    std::int64_t n, k;
  };
  const auto opened = open_cpu_device({.num_threads = settings.num_threads, .kernels = settings.kernels});
  if (!opened) {
    std::fprintf(stderr, "clef-bench: %s\n", opened.error().message.c_str());
    return 1;
  }
  Device& device = **opened;
  std::printf("%s, %s\n", machine_name().c_str(), device.name().c_str());
  std::printf("%8s %8s %8s %12s %12s %8s\n", "rows", "k", "n", "GFLOP/s", "FMA peak", "share");
  for (const Shape shape : {Shape{4096, 4096}, Shape{12288, 4096}, Shape{4096, 12288}}) {
    const Matrix w = make(device, shape.n, shape.k, DType::bf16);
    for (const int m : rows) {
      const Matrix x = make(device, m, shape.k, DType::f32), y = make(device, m, shape.n, DType::f32);
      const Linear op{.y = y.tensor, .x = x.tensor, .w = w.tensor, .bias = {}};
      double peak = 0;
      const double seconds = time_beside_peak(
          settings,
          [&] {
            const auto pass = device.begin();
            pass->run(op);
            (void)pass->finish();
          },
          peak);
      const double rate = flops(op, device) / seconds;
      std::printf("%8d %8ld %8ld %12.1f %12.1f %7.1f%%\n", m, static_cast<long>(shape.k), static_cast<long>(shape.n),
                  rate / 1e9, peak / 1e9, 100 * rate / peak);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace clef::bench
