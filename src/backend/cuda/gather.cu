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

// One thread kWord elements, which lie on 16 bytes in the table's rows and in y's; columns are in whole words.
constexpr int kWord = 8;
__global__ void __launch_bounds__(kThreads)
    embed(Matrix<float> y, const int* ids, const __half* table, float scale, std::int64_t first) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t r = first + blockIdx.y, c = column() * kWord;
  if (c >= y.cols) return;
  const uint4 bits = __ldg(reinterpret_cast<const uint4*>(table + ids[r] * y.cols + c));
  const std::uint32_t words[kWord / 2] = {bits.x, bits.y, bits.z, bits.w};
  float4* to = reinterpret_cast<float4*>(y.row(r) + c);
#pragma unroll
  for (int i = 0; i < kWord / 4; ++i) {
    const float2 a = __half22float2(*reinterpret_cast<const __half2*>(&words[2 * i]));
    const float2 b = __half22float2(*reinterpret_cast<const __half2*>(&words[2 * i + 1]));
    to[i] = make_float4(a.x * scale, a.y * scale, b.x * scale, b.y * scale);
  }
}

// One thread kTakenWords words of a row, kThreads apart, which it asks for together.
constexpr int kTakenWords = 4;
template <typename Word>
__global__ void __launch_bounds__(kThreads)
    take_rows(Matrix<Word> y, Matrix<const Word> table, const int* ids, std::int64_t first) {
  let_next_start();
  const std::int64_t r = first + blockIdx.y, c = std::int64_t{blockIdx.x} * kThreads * kTakenWords + threadIdx.x;
  const Word* from = table.row(ids[r]);  // uploaded: no kernel writes it
  Word taken[kTakenWords];
#pragma unroll
  for (int i = 0; i < kTakenWords; ++i) {
    if (c + i * kThreads < y.cols) taken[i] = __ldg(from + c + i * kThreads);
  }
  wait_for_inputs();
#pragma unroll
  for (int i = 0; i < kTakenWords; ++i) {
    if (c + i * kThreads < y.cols) y.row(r)[c + i * kThreads] = taken[i];
  }
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

// A thread kWide neighbouring elements, which lie on a word of so many.
template <int kWide>
__global__ void __launch_bounds__(kThreads)
    put_rows(Matrix<float> y, Matrix<const float> x, const int* index, std::int64_t first) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t r = first + blockIdx.y, c = column() * kWide;
  using Floats = Word<float, kWide>;
  if (c < y.cols) *reinterpret_cast<Floats*>(y.row(index[r]) + c) = *reinterpret_cast<const Floats*>(x.row(r) + c);
}

template <int kWide>
__global__ void __launch_bounds__(kThreads)
    add_interpolated(Matrix<float> y, const __half* table, float scale, Matrix<const int> taps,
                     Matrix<const float> weights, std::int64_t first) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t r = first + blockIdx.y, c = column() * kWide;
  if (c >= y.cols) return;
  auto* const to = reinterpret_cast<Word<float, kWide>*>(y.row(r) + c);
  Word<float, kWide> values = *to;
  for (std::int64_t j = 0; j < taps.cols; ++j) {
    const auto row = *reinterpret_cast<const Word<__half, kWide>*>(table + taps.row(r)[j] * y.cols + c);
    const float weight = weights.row(r)[j];
#pragma unroll
    for (int i = 0; i < kWide; ++i) values.of[i] = fmaf(weight, __half2float(row.of[i]) * scale, values.of[i]);
  }
  *to = values;
}

// One thread four pairs of features of f16, which lie on eight bytes, in each of kTurnedRows rows.
constexpr int kTurnedRows = 4;
__global__ void __launch_bounds__(kThreads)
    rope_fours(Matrix<__half> x, Matrix<const float> cos, Matrix<const float> sin) {
  let_next_start();
  wait_for_inputs();
  const auto words = static_cast<unsigned>(x.cols / 8), fours = static_cast<unsigned>(cos.cols / 4);
  const std::int64_t item = column();
  const std::int64_t first = item / words * kTurnedRows;
  const unsigned index = static_cast<unsigned>(item % words), head = index / fours, i = index % fours * 4;
  uint2 a_words[kTurnedRows], b_words[kTurnedRows];
  float4 cosines[kTurnedRows], sines[kTurnedRows];
  const auto place = [&](int row) { return reinterpret_cast<uint2*>(x.row(first + row) + head * fours * 8 + i); };
#pragma unroll
  for (int row = 0; row < kTurnedRows; ++row) {
    if (first + row >= x.rows) break;
    a_words[row] = *place(row);
    b_words[row] = place(row)[fours];
    cosines[row] = *reinterpret_cast<const float4*>(cos.row(first + row) + i);
    sines[row] = *reinterpret_cast<const float4*>(sin.row(first + row) + i);
  }
  const auto turn = [](std::uint32_t& a_word, std::uint32_t& b_word, float c0, float s0, float c1, float s1) {
    const float2 a = __half22float2(*reinterpret_cast<const __half2*>(&a_word));
    const float2 b = __half22float2(*reinterpret_cast<const __half2*>(&b_word));
    const __half2 first_half = __floats2half2_rn(a.x * c0 - b.x * s0, a.y * c1 - b.y * s1);
    const __half2 second_half = __floats2half2_rn(b.x * c0 + a.x * s0, b.y * c1 + a.y * s1);
    a_word = *reinterpret_cast<const std::uint32_t*>(&first_half);
    b_word = *reinterpret_cast<const std::uint32_t*>(&second_half);
  };
#pragma unroll
  for (int row = 0; row < kTurnedRows; ++row) {
    if (first + row >= x.rows) break;
    const float4 &c = cosines[row], &s = sines[row];
    turn(a_words[row].x, b_words[row].x, c.x, s.x, c.y, s.y);
    turn(a_words[row].y, b_words[row].y, c.z, s.z, c.w, s.w);
    *place(row) = a_words[row];
    place(row)[fours] = b_words[row];
  }
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

bool lies_on_fours(const Tensor& t) { return lies_on_words(t, 4 * static_cast<std::int64_t>(size_of(t.dtype))); }
const int* ints(const Tensor& t) { return t ? reinterpret_cast<const int*>(t.address()) : nullptr; }
const __half* halves(const Tensor& t) { return reinterpret_cast<const __half*>(t.address()); }

}  // namespace

void run(const Embed& op, Context& context) {
  if (op.y.cols % kWord != 0 || op.y.stride % 4 != 0) {
    context.check(Error{Errc::unsupported,
                        fmt::format("cuda: embeddings of {} columns: expected a multiple of {}", op.y.cols, kWord)});
    return;
  }
  by_grid_rows(op.y.rows, [&](std::int64_t first, unsigned rows) {
    context.check(Launch(dim3(blocks(op.y.cols / kWord, kThreads), rows), kThreads, 0, context.stream)
                      .run(embed, matrix<float>(op.y), ints(op.ids), halves(op.table), scale_of(op.table), first),
                  "embed");
  });
}

void run(const TakeRows& op, Context& context) {
  const auto take = [&](auto word) {
    using Word = decltype(word);
    const auto y = words<Word>(op.y);
    by_grid_rows(op.y.rows, [&](std::int64_t first, unsigned rows) {
      context.check(Launch(dim3(blocks(y.cols, kThreads * kTakenWords), rows), kThreads, 0, context.stream)
                        .run(take_rows<Word>, y, words<const Word>(op.table), ints(op.ids), first),
                    "take_rows");
    });
  };
  if (lies_on_words(op.y, sizeof(uint4)) && lies_on_words(op.table, sizeof(uint4))) {
    take(uint4{});
  } else {
    by_type(op.y.dtype, take);
  }
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
  const auto put = [&](auto kernel, int wide) {
    by_grid_rows(op.x.rows, [&](std::int64_t first, unsigned rows) {
      context.check(Launch(dim3(blocks(op.y.cols, kThreads * wide), rows), kThreads, 0, context.stream)
                        .run(kernel, matrix<float>(op.y), matrix<const float>(op.x), ints(op.index), first),
                    "put_rows");
    });
  };
  lies_on_fours(op.y) && lies_on_fours(op.x) ? put(put_rows<4>, 4) : put(put_rows<1>, 1);
}

void run(const AddInterpolated& op, Context& context) {
  const auto add = [&](auto kernel, int wide) {
    by_grid_rows(op.y.rows, [&](std::int64_t first, unsigned rows) {
      context.check(Launch(dim3(blocks(op.y.cols, kThreads * wide), rows), kThreads, 0, context.stream)
                        .run(kernel, matrix<float>(op.y), halves(op.table), scale_of(op.table),
                             matrix<const int>(op.taps), matrix<const float>(op.weights), first),
                    "add_interpolated");
    });
  };
  lies_on_fours(op.y) && lies_on_fours(op.table) ? add(add_interpolated<4>, 4) : add(add_interpolated<1>, 1);
}

void run(const Rope& op, Context& context) {
  const bool in_fours = op.x.dtype == DType::f16 && op.cos.cols % 4 == 0 && op.cos.stride % 4 == 0 &&
                        op.sin.stride % 4 == 0 && op.x.stride % 4 == 0 && op.x.offset % 8 == 0;
  if (in_fours) {
    const std::int64_t items = (op.x.rows + kTurnedRows - 1) / kTurnedRows * (op.x.cols / 8);
    context.check(Launch(blocks(items, kThreads), kThreads, 0, context.stream)
                      .run(rope_fours, matrix<__half>(op.x), matrix<const float>(op.cos), matrix<const float>(op.sin)),
                  "rope");
    return;
  }
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
