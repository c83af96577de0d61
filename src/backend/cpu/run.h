// How the CPU runs each op: shares out its outputs over threads and calls the kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/kernels/kernels.h"
#include "base/thread_pool.h"
#include "ops/op.h"

namespace clef::cpu {

// Memory that one thread works in; grows to what was asked for and stays.
class Scratch {
 public:
  // At least `count` floats, aligned to a cache line; not cleared.
  float* floats(std::size_t count);

 private:
  struct Free {
    void operator()(float* memory) const;
  };
  std::unique_ptr<float, Free> memory_;
  std::size_t count_ = 0;
};

struct Context {
  explicit Context(const Kernels& kernels_, int num_threads)
      : kernels(kernels_), pool(num_threads), scratch(static_cast<std::size_t>(pool.num_threads())) {}
  // Calls work(first, count) over [0, rows) in blocks, from all threads.
  void for_rows(std::int64_t rows, const std::function<void(std::int64_t first, std::int64_t count)>& work);

  const Kernels& kernels;
  ThreadPool pool;
  std::vector<Scratch> scratch;  // by thread
};

// The sequence that holds token t.
inline std::int64_t sequence_of(const Tensor& cu_seqlens, std::int64_t t) {
  const auto* starts = cu_seqlens.row<const std::int32_t>(0);
  return std::upper_bound(starts, starts + cu_seqlens.cols, static_cast<std::int32_t>(t)) - 1 - starts;
}

void run(const Embed& op, Context& context);
void run(const RmsNorm& op, Context& context);
void run(const GatedRmsNorm& op, Context& context);
void run(const LayerNorm& op, Context& context);
void run(const Linear& op, Context& context);
void run(const Projections& op, Context& context);
void run(const LinearAdd& op, Context& context);
void run(const LinearSwiglu& op, Context& context);
void run(const LinearGelu& op, Context& context);
void run(const QkNormRope& op, Context& context);
void run(const Attention& op, Context& context);
void run(const CrossAttention& op, Context& context);
void run(const ShortConv& op, Context& context);
void run(const DeltaNet& op, Context& context);
void run(const SpanMean& op, Context& context);
void run(const EmbedMean& op, Context& context);
void run(const AddRows& op, Context& context);
void run(const OptionSummary& op, Context& context);
void run(const ScorerFeatures& op, Context& context);
void run(const OptionLogits& op, Context& context);
void run(const PatchEmbed& op, Context& context);
void run(const AddInterpolated& op, Context& context);
void run(const Rope& op, Context& context);
void run(const PutRows& op, Context& context);
void run(const PrependRows& op, Context& context);
void run(const TakeRows& op, Context& context);

WeightType weight_type(DType dtype);

}  // namespace clef::cpu
