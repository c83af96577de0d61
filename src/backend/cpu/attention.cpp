// Attention on the CPU: a task is one block of queries of one sequence with all query heads of one key head.
#include <algorithm>
#include <cmath>

#include "backend/cpu/run.h"

namespace clef::cpu {

namespace {

static_assert(kAttentionBlock == 64, "kernels/attention.h is written for this block");

// Without a mask every query sees all keys, so a block of queries may be as large as repays packing the keys.
constexpr std::int64_t kCrossQueries = 256;

struct Task {
  std::int64_t first_query, queries;  // rows of q
  std::int64_t first_key, keys;       // rows of k and v
  std::int64_t key_head;
  std::int64_t place;  // of the first query in its sequence; -1: no mask
};

void run_tasks(std::vector<Task>& tasks, Context& context, std::int64_t heads, std::int64_t head_dim,
               const std::function<void(const Task&, AttentionBlock&)>& describe) {
  // The longest first, so that no thread is left with one at the end.
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.keys > b.keys; });
  context.pool.for_each(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t index, int thread) {
    const Task& task = tasks[static_cast<std::size_t>(index)];
    AttentionBlock block{};
    block.queries = task.queries;
    block.heads = heads;
    block.keys = task.keys;
    block.first_query = task.place;
    block.head_dim = head_dim;
    block.scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
    describe(task, block);
    block.scratch = context.scratch[static_cast<std::size_t>(thread)].floats(
        context.kernels.attention_scratch(block.queries, heads, head_dim));
    context.kernels.attention_block(block);
  });
}

}  // namespace

void run(const Attention& op, Context& context) {
  const std::int64_t d = op.head_dim, group = op.q.cols / op.k.cols;
  const auto* cu_seqlens = op.cu_seqlens.row<const std::int32_t>(0);
  std::vector<Task> tasks;
  for (std::int64_t s = 0; s + 1 < op.cu_seqlens.cols; ++s) {
    const std::int64_t start = cu_seqlens[s], length = cu_seqlens[s + 1] - start;
    for (std::int64_t block = 0; block < length; block += kAttentionBlock) {
      const std::int64_t end = std::min(block + kAttentionBlock, length), place = std::max(block, op.prefix);
      if (place >= end) continue;
      for (std::int64_t h = 0; h < op.k.cols / d; ++h) {
        tasks.push_back({start + place - (s + 1) * op.prefix, end - place, start, end, h, place});
      }
    }
  }
  run_tasks(tasks, context, group, d, [&](const Task& task, AttentionBlock& block) {
    const std::int64_t q_column = task.key_head * group * d, kv_column = task.key_head * d;
    block.q = op.q.row<const float>(task.first_query) + q_column;
    block.q_stride = op.q.stride;
    block.k = op.k.row<const float>(task.first_key) + kv_column;
    block.v = op.v.row<const float>(task.first_key) + kv_column;
    CHECK(op.k.stride == op.v.stride);
    block.kv_stride = op.k.stride;
    block.gate = op.q_gate.row<const float>(task.first_query) + 2 * q_column + d;
    block.gate_stride = op.q_gate.stride;
    block.gate_head_stride = 2 * d;
    block.y = op.y.row<float>(task.first_query) + q_column;
    block.y_stride = op.y.stride;
  });
}

void run(const CrossAttention& op, Context& context) {
  const std::int64_t d = op.head_dim;
  const auto* cu_queries = op.cu_queries.row<const std::int32_t>(0);
  const auto* cu_keys = op.cu_keys.row<const std::int32_t>(0);
  std::vector<Task> tasks;
  for (std::int64_t s = 0; s + 1 < op.cu_queries.cols; ++s) {
    for (std::int64_t first = cu_queries[s]; first < cu_queries[s + 1]; first += kCrossQueries) {
      const std::int64_t queries = std::min<std::int64_t>(kCrossQueries, cu_queries[s + 1] - first);
      for (std::int64_t h = 0; h < op.q.cols / d; ++h) {
        tasks.push_back({first, queries, cu_keys[s], cu_keys[s + 1] - cu_keys[s], h, -1});
      }
    }
  }
  run_tasks(tasks, context, 1, d, [&](const Task& task, AttentionBlock& block) {
    const std::int64_t column = task.key_head * d;
    block.q = op.q.row<const float>(task.first_query) + column;
    block.q_stride = op.q.stride;
    block.k = op.k.row<const float>(task.first_key) + column;
    block.v = op.v.row<const float>(task.first_key) + column;
    CHECK(op.k.stride == op.v.stride);
    block.kv_stride = op.k.stride;
    block.y = op.y.row<float>(task.first_query) + column;
    block.y_stride = op.y.stride;
  });
}

}  // namespace clef::cpu
