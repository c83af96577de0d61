#include "backend/cuda/rehearsal.h"

#include <algorithm>

#include "backend/cuda/attention_f32.h"
#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_f32.h"
#include "backend/cuda/few_rows.h"
#include "backend/cuda/matmul.h"
#include "backend/cuda/products.h"
#include "ops/op.h"

namespace clef::cuda {

namespace {

// Memory that is there once, however large the pass: what weights of F32 arrive in, cuBLASLt's own, and the driver's
// for graphs and kernels; and what blocks of a product hand over.
constexpr std::size_t kFixedBytes = (std::size_t{256} << 20) + (Handover::kSums + Handover::kMarks) * sizeof(float);

// Rows that products take at a time, by linear.cpp and product_cublas.cpp; a test holds the sum to what a pass took.
constexpr std::int64_t kPlaneRows = 32768, kPixelRows = 16384, kCublasRows = 8192;
constexpr std::int64_t kPlaneStep = 64;

// Two planes of halves, and a scale.
std::int64_t planes_row_bytes(std::int64_t depth) {
  const std::int64_t padded = (depth + kPlaneStep - 1) / kPlaneStep * kPlaneStep;
  return (2 * padded + 2) * static_cast<std::int64_t>(sizeof(__half));
}

// Each kind of memory grows to the most that an op asked of it, and stays: Context's workspaces.
class Rehearsal final : public Pass {
 public:
  Rehearsal(std::size_t& bytes, bool is_hopper) : bytes_(bytes), is_hopper_(is_hopper) {}
  Status finish() override {
    bytes_ = std::max(bytes_, kFixedBytes + planes_ + products_ + states_ + pixels_);
    return {};
  }

 private:
  void encode(const Op& op) override {
    std::visit([this](const auto& o) { count(o); }, op);
  }

  void count(const Linear& op) { product(op.x, op.w.rows, op.items); }
  void count(const LinearAdd& op) { product(read(op), op.w.rows, op.items); }
  void count(const LinearGelu& op) { product(op.x, op.w.rows, op.items); }
  void count(const Projections& op) { product(read(op), op.y.cols + op.gates.cols, op.items); }
  void count(const LinearSwiglu& op) { product(read(op), 2 * op.y.cols, false); }
  void count(const DeltaNet& op) {
    const auto sequences = static_cast<int>(op.cu_seqlens.cols - 1), tokens = static_cast<int>(op.q.rows);
    const auto key_heads = static_cast<int>(op.q.cols / op.head_dim);
    const auto value_heads = static_cast<int>(op.v.cols / op.value_dim);
    grow(states_, op.q.dtype == DType::f32 ? delta_net_f32_workspace(tokens, sequences, key_heads, value_heads)
                                           : delta_net_workspace(tokens, sequences, key_heads, value_heads));
  }
  void count(const CrossAttention& op) {
    if (op.q.dtype != DType::f32) return;
    AttentionF32Args args{};
    args.queries = op.q.rows;
    args.keys = op.k.rows;
    args.segments = static_cast<int>(op.cu_queries.cols - 1);
    args.heads = static_cast<int>(op.q.cols / op.head_dim);
    args.head_dim = static_cast<int>(op.head_dim);
    grow(states_, attention_f32_partials(args) * static_cast<std::int64_t>(sizeof(float)));
  }
  void count(const PatchEmbed& op) {
    const std::int64_t rows = std::min(op.y.rows, kPixelRows);
    grow(pixels_, rows * op.levels.cols * static_cast<std::int64_t>(sizeof(__half)));
    product({.rows = rows, .cols = op.levels.cols, .dtype = DType::f16}, op.y.cols, false);
  }
  template <typename Other>
  void count(const Other& /*op*/) {}

  // An input with a low part takes nothing beside it; but a record that is run again in f32 has planes in its place.
  template <typename Op>
  static Tensor read(const Op& op) {
    Tensor x = op.x;
    if (op.low) x.dtype = DType::f32;
    return x;
  }

  void product(const Tensor& x, std::int64_t columns, bool few) {
    const bool is_f32 = x.dtype == DType::f32;
    if (few && is_f32 && x.cols <= kMostFewRowsDepth) return;
    const std::int64_t rows =
        is_hopper_ ? std::min(x.rows, kPlaneRows) : std::clamp(x.rows, kFewestRows, kCublasRows + kFewestRows);
    if (is_f32) grow(planes_, rows * planes_row_bytes(x.cols));
    if (is_hopper_) return;
    if (!is_f32 && x.rows < kFewestRows) grow(planes_, rows * x.cols * static_cast<std::int64_t>(sizeof(__half)));
    grow(products_, rows * columns * static_cast<std::int64_t>(sizeof(float)));
  }

  template <typename Bytes>
  static void grow(std::size_t& most, Bytes bytes) {
    most = std::max(most, static_cast<std::size_t>(bytes));
  }

  std::size_t& bytes_;
  bool is_hopper_;
  std::size_t planes_ = 0, products_ = 0, states_ = 0, pixels_ = 0;
};

}  // namespace

std::unique_ptr<Pass> rehearse(std::size_t& bytes, bool is_hopper) {
  return std::make_unique<Rehearsal>(bytes, is_hopper);
}

}  // namespace clef::cuda
