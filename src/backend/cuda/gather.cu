// Rows gathered, averaged, added and put in place on the GPU; rotary of whole heads.
// Arithmetic: f32, each element in one thread, sums in ascending order.
// Bound:      memory.
#include "backend/cuda/lanes.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/run.h"

namespace clef::cuda {

namespace {

constexpr int kThreads = 256;

// One thread an element of y: grid (columns / kThreads, rows).
dim3 grid_of(const Tensor& y) { return {blocks(y.cols, kThreads), static_cast<unsigned>(y.rows)}; }
__device__ std::int64_t column() { return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
// The grid's second dimension ends at 65,535: rows beyond are taken in further rounds.
constexpr std::int64_t kMostGridRows = 65535;
template <typename Launch>
void by_grid_rows(std::int64_t rows, Launch launch) {
  for (std::int64_t first = 0; first < rows; first += kMostGridRows) {
    launch(first, static_cast<unsigned>(rows - first < kMostGridRows ? rows - first : kMostGridRows));
  }
}

__global__ void __launch_bounds__(kThreads)
    embed(Matrix<float> y, const int* ids, const __half* table, float scale, std::int64_t first) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t r = first + blockIdx.y, c = column();
  if (c < y.cols) y.row(r)[c] = __half2float(table[ids[r] * y.cols + c]) * scale;
}

__global__ void __launch_bounds__(kThreads) span_mean(Matrix<float> y, Matrix<const float> x, const int* spans) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t r = blockIdx.y, c = column();
  if (c >= y.cols) return;
  const int first = spans[2 * r], count = spans[2 * r + 1];
  float sum = x.row(first)[c];
  for (int i = 1; i < count; ++i) sum += x.row(first + i)[c];
  y.row(r)[c] = sum * (1.0F / static_cast<float>(count));
}

__global__ void __launch_bounds__(kThreads)
    embed_mean(Matrix<float> y, const int* ids, const int* spans, const __half* table, float scale) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t r = blockIdx.y, c = column();
  if (c >= y.cols) return;
  const int first = spans[2 * r], count = spans[2 * r + 1];
  float sum = __half2float(table[ids[first] * y.cols + c]) * scale;
  for (int i = 1; i < count; ++i) sum += __half2float(table[ids[first + i] * y.cols + c]) * scale;
  y.row(r)[c] = sum * (1.0F / static_cast<float>(count));
}

template <typename From>
__global__ void __launch_bounds__(kThreads)
    add_rows(Matrix<float> y, Matrix<const From> x, const int* index, float scale) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t r = blockIdx.y, c = column();
  if (c < y.cols) y.row(r)[c] += to_float(x.row(index == nullptr ? r : index[r])[c]) * scale;
}

__global__ void __launch_bounds__(kThreads)
    put_rows(Matrix<float> y, Matrix<const float> x, const int* index, std::int64_t first) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t r = first + blockIdx.y, c = column();
  if (c < y.cols) y.row(index[r])[c] = x.row(r)[c];
}

__global__ void __launch_bounds__(kThreads)
    add_interpolated(Matrix<float> y, const __half* table, float scale, Matrix<const int> taps,
                     Matrix<const float> weights, std::int64_t first) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t r = first + blockIdx.y, c = column();
  if (c >= y.cols) return;
  float value = y.row(r)[c];
  for (std::int64_t j = 0; j < taps.cols; ++j) {
    value = fmaf(weights.row(r)[j], __half2float(table[taps.row(r)[j] * y.cols + c]) * scale, value);
  }
  y.row(r)[c] = value;
}

// One thread a pair of features.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    rope(Matrix<T> x, Matrix<const float> cos, Matrix<const float> sin, std::int64_t first) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t r = first + blockIdx.y, p = column(), pairs = cos.cols;
  if (p >= x.cols / 2) return;
  T* head = x.row(r) + p / pairs * 2 * pairs;
  const std::int64_t i = p % pairs;
  const float a = to_float(head[i]), b = to_float(head[i + pairs]), c = cos.row(r)[i], s = sin.row(r)[i];
  head[i] = from_float<T>(a * c - b * s);
  head[i + pairs] = from_float<T>(b * c + a * s);
}

const int* ints(const Tensor& t) { return t ? reinterpret_cast<const int*>(t.address()) : nullptr; }
const __half* halves(const Tensor& t) { return reinterpret_cast<const __half*>(t.address()); }

}  // namespace

void run(const Embed& op, Context& context) {
  by_grid_rows(op.y.rows, [&](std::int64_t first, unsigned rows) {
    context.check(Launch(dim3(blocks(op.y.cols, kThreads), rows), kThreads, 0, context.stream)
                      .run(embed, matrix<float>(op.y), ints(op.ids), halves(op.table), scale_of(op.table), first),
                  "embed");
  });
}

void run(const SpanMean& op, Context& context) {
  if (op.y.rows == 0) return;
  context.check(Launch(grid_of(op.y), kThreads, 0, context.stream)
                    .run(span_mean, matrix<float>(op.y), matrix<const float>(op.x), ints(op.spans)),
                "span_mean");
}

void run(const EmbedMean& op, Context& context) {
  if (op.y.rows == 0) return;
  context.check(
      Launch(grid_of(op.y), kThreads, 0, context.stream)
          .run(embed_mean, matrix<float>(op.y), ints(op.ids), ints(op.spans), halves(op.table), scale_of(op.table)),
      "embed_mean");
}

void run(const AddRows& op, Context& context) {
  if (op.y.rows == 0) return;
  if (op.x.dtype == DType::f32) {
    context.check(Launch(grid_of(op.y), kThreads, 0, context.stream)
                      .run(add_rows<float>, matrix<float>(op.y), matrix<const float>(op.x), ints(op.index), 1.0F),
                  "add_rows");
  } else {
    context.check(
        Launch(grid_of(op.y), kThreads, 0, context.stream)
            .run(add_rows<__half>, matrix<float>(op.y), matrix<const __half>(op.x), ints(op.index), scale_of(op.x)),
        "add_rows");
  }
}

void run(const PutRows& op, Context& context) {
  by_grid_rows(op.x.rows, [&](std::int64_t first, unsigned rows) {
    context.check(Launch(dim3(blocks(op.y.cols, kThreads), rows), kThreads, 0, context.stream)
                      .run(put_rows, matrix<float>(op.y), matrix<const float>(op.x), ints(op.index), first),
                  "put_rows");
  });
}

void run(const AddInterpolated& op, Context& context) {
  by_grid_rows(op.y.rows, [&](std::int64_t first, unsigned rows) {
    context.check(Launch(dim3(blocks(op.y.cols, kThreads), rows), kThreads, 0, context.stream)
                      .run(add_interpolated, matrix<float>(op.y), halves(op.table), scale_of(op.table),
                           matrix<const int>(op.taps), matrix<const float>(op.weights), first),
                  "add_interpolated");
  });
}

void run(const Rope& op, Context& context) {
  by_grid_rows(op.x.rows, [&](std::int64_t first, unsigned rows) {
    const dim3 grid(blocks(op.x.cols / 2, kThreads), rows);
    by_type(op.x.dtype, [&](auto zero) {
      using T = decltype(zero);
      context.check(Launch(grid, kThreads, 0, context.stream)
                        .run(rope<T>, matrix<T>(op.x), matrix<const float>(op.cos), matrix<const float>(op.sin), first),
                    "rope");
    });
  });
}

}  // namespace clef::cuda
