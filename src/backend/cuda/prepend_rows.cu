// PrependRows: known rows and new ones side by side. Bound: memory.
#include "backend/cuda/lanes.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/run.h"

namespace clef::cuda {

namespace {

constexpr int kThreads = 256;

// Matrices in words, of whatever the rows are made of.
template <typename Word>
__global__ void __launch_bounds__(kThreads)
    prepend_rows(Matrix<Word> y, Matrix<const Word> x, Matrix<const Word> prefix, const int* cu_seqlens, int sequences,
                 std::int64_t first) {
  let_next_start();
  const std::int64_t row = first + blockIdx.y, column = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int sequence = segment_of(cu_seqlens, sequences, row);  // uploaded: no kernel writes it
  const std::int64_t place = row - cu_seqlens[sequence];
  wait_for_inputs();
  if (column >= y.cols) return;
  const Word* from = place < prefix.rows ? prefix.row(place) : x.row(row - (sequence + 1) * prefix.rows);
  y.row(row)[column] = from[column];
}

template <typename Word>
void run_words(const PrependRows& op, Context& context) {
  const auto y = words<Word>(op.y);
  const auto x = words<const Word>(op.x), prefix = words<const Word>(op.prefix);
  const int* cu_seqlens = reinterpret_cast<const int*>(op.cu_seqlens.address());
  by_grid_rows(y.rows, [&](std::int64_t first, unsigned rows) {
    context.check(
        Launch(dim3(blocks(y.cols, kThreads), rows), kThreads, 0, context.stream)
            .run(prepend_rows<Word>, y, x, prefix, cu_seqlens, static_cast<int>(op.cu_seqlens.cols - 1), first),
        "prepend_rows");
  });
}

}  // namespace

void run(const PrependRows& op, Context& context) {
  if (op.y.rows == 0) return;
  const bool wide = lies_on_words(op.y, sizeof(uint4)) && lies_on_words(op.x, sizeof(uint4)) &&
                    (!op.prefix || lies_on_words(op.prefix, sizeof(uint4)));
  if (wide) {
    run_words<uint4>(op, context);
  } else if (op.y.dtype == DType::f32) {
    run_words<float>(op, context);
  } else {
    run_words<__half>(op, context);
  }
}

}  // namespace clef::cuda
