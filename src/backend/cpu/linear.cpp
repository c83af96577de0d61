// Matrix products on the CPU: blocks of rows by blocks of columns, each with the whole depth.
#include <algorithm>

#include "backend/cpu/run.h"

namespace clef::cpu {

namespace {

// A block's packed operands and sums stay within a core's L2 cache (1 MB), and packing either operand is small beside
// the products it serves. Sizes do not touch the arithmetic.
constexpr std::int64_t kBlockRows = 512;
constexpr std::int64_t kBlockColumns = 256;

struct Product {
  Tensor y, x, w, w_up, bias;
  Epilogue epilogue;
};

std::int64_t div_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void run_product(const Product& op, Context& context) {
  const bool swiglu = op.epilogue == Epilogue::swiglu;
  const std::int64_t rows = op.y.rows, n = op.y.cols;
  if (rows == 0 || n == 0) return;
  const std::int64_t row_blocks = div_up(rows, kBlockRows);
  const std::int64_t columns = swiglu ? kBlockColumns / 2 : kBlockColumns;
  const std::int64_t column_blocks = div_up(n, columns);
  context.pool.for_each(row_blocks * column_blocks, [&](std::int64_t index, int thread) {
    const std::int64_t row_block = index % row_blocks, column_block = index / row_blocks;
    const std::int64_t first_row = row_block * rows / row_blocks;
    LinearBlock block{};
    block.rows = (row_block + 1) * rows / row_blocks - first_row;
    block.x = op.x.row<const float>(first_row);
    block.x_stride = op.x.stride;
    block.depth = op.x.cols;
    block.w = op.w.address();
    if (swiglu) block.w_up = op.w_up.address();
    block.weight_type = weight_type(op.w.dtype);
    block.n = n;
    block.first_column = column_block * columns;
    block.num_columns = std::min(columns, n - block.first_column);
    block.epilogue = op.epilogue;
    block.bias = op.bias ? op.bias.row<const float>(0) : nullptr;
    block.y = op.y.row<float>(first_row);
    block.y_stride = op.y.stride;
    block.scratch = context.scratch[static_cast<std::size_t>(thread)].floats(
        context.kernels.linear_scratch(block.rows, block.num_columns, swiglu));
    context.kernels.linear_block(block);
  });
}

}  // namespace

void run(const Linear& op, Context& context) { run_product({op.y, op.x, op.w, {}, op.bias, Epilogue::store}, context); }
void run(const Projections& op, Context& context) {
  const auto side_by_side = [&](const Tensor& y, const Tensor& bias, const std::vector<Tensor>& weights) {
    std::int64_t columns = 0;
    for (const Tensor& w : weights) {
      const Tensor its_bias = bias ? bias.col_range(columns, w.rows) : bias;
      run_product({y.col_range(columns, w.rows), op.x, w, {}, its_bias, Epilogue::store}, context);
      columns += w.rows;
    }
  };
  side_by_side(op.y, op.bias, parts(op));
  side_by_side(op.gates, {}, gate_parts(op));
}
void run(const LinearAdd& op, Context& context) {
  run_product({op.y, op.x, op.w, {}, op.bias, Epilogue::add}, context);
}
void run(const LinearSwiglu& op, Context& context) {
  run_product({op.y, op.x, op.gate, op.up, {}, Epilogue::swiglu}, context);
}
void run(const LinearGelu& op, Context& context) {
  const Epilogue epilogue = op.gelu == Gelu::erf ? Epilogue::gelu_erf : Epilogue::gelu_tanh;
  run_product({op.y, op.x, op.w, {}, op.bias, epilogue}, context);
}

}  // namespace clef::cpu
