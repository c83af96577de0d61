// The head's last steps on the GPU: a summary of each question's options, and the logits.
// Arithmetic: f32; strided partial sums a thread, butterfly in the warp, warps in index order.
// Schedule:   one block a question or an option; small beside everything else.
#include "backend/cuda/lanes.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/run.h"

namespace clef::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kHeldColumns = 8;  // a thread: widths up to 2,048

// The softmax over options is taken as they come: sums so far are scaled down whenever a larger logit appears.
__global__ void __launch_bounds__(kThreads)
    option_summary(Matrix<float> z, Matrix<const float> options, Matrix<const float> fields, const int* cu_options) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t q = blockIdx.x;
  const float* field = fields.row(q);
  const float scale = 1.0F / sqrtf(static_cast<float>(options.cols));
  float most = -INFINITY, total = 0;
  float sums[kHeldColumns] = {};
  for (int k = cu_options[q]; k < cu_options[q + 1]; ++k) {
    const float* option = options.row(k);
    float dot = 0;
    for (std::int64_t c = threadIdx.x; c < options.cols; c += kThreads) dot = fmaf(option[c], field[c], dot);
    const float logit = block_sum<kThreads>(dot) * scale;
    const float larger = fmaxf(most, logit);
    const float keep = expf(most - larger), weight = expf(logit - larger);
    most = larger;
    total = fmaf(total, keep, weight);
#pragma unroll
    for (int i = 0; i < kHeldColumns; ++i) {
      const std::int64_t c = threadIdx.x + i * kThreads;
      if (c < options.cols) sums[i] = fmaf(sums[i], keep, weight * option[c]);
    }
  }
#pragma unroll
  for (int i = 0; i < kHeldColumns; ++i) {
    const std::int64_t c = threadIdx.x + i * kThreads;
    if (c < options.cols) z.row(q)[c] = sums[i] / total;
  }
}

__global__ void __launch_bounds__(kThreads)
    scorer_features(Matrix<float> y, Matrix<const float> fields, Matrix<const float> options, const int* questions) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t k = blockIdx.x, width = options.cols;
  const float* field = fields.row(questions[k]);
  const float* option = options.row(k);
  float* to = y.row(k);
  for (std::int64_t c = threadIdx.x; c < width; c += kThreads) {
    to[c] = field[c];
    to[width + c] = option[c];
    to[2 * width + c] = field[c] * option[c];
    to[3 * width + c] = fabsf(field[c] - option[c]);
  }
}

struct Logits {
  float* logits;
  Matrix<const float> lexical, question, last, fields, options, residual;
  const int* question_of_option;
  float prior_scale, joint_scale, gate;
};

__global__ void __launch_bounds__(kThreads) option_logits(Logits op) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t k = blockIdx.x, q = op.question_of_option[k];
  const float *lexical = op.lexical.row(k), *question = op.question.row(q), *last = op.last.row(q);
  float dot = 0, lexical_squares = 0, query_squares = 0;
  for (std::int64_t c = threadIdx.x; c < op.lexical.cols; c += kThreads) {
    const float query = question[c] + last[c];
    dot = fmaf(lexical[c], query, dot);
    lexical_squares = fmaf(lexical[c], lexical[c], lexical_squares);
    query_squares = fmaf(query, query, query_squares);
  }
  dot = block_sum<kThreads>(dot);
  lexical_squares = block_sum<kThreads>(lexical_squares);
  query_squares = block_sum<kThreads>(query_squares);
  const float *field = op.fields.row(q), *option = op.options.row(k);
  float joint = 0, field_squares = 0, option_squares = 0;
  for (std::int64_t c = threadIdx.x; c < op.options.cols; c += kThreads) {
    joint = fmaf(field[c], option[c], joint);
    field_squares = fmaf(field[c], field[c], field_squares);
    option_squares = fmaf(option[c], option[c], option_squares);
  }
  joint = block_sum<kThreads>(joint);
  field_squares = block_sum<kThreads>(field_squares);
  option_squares = block_sum<kThreads>(option_squares);
  if (threadIdx.x != 0) return;
  // torch.nn.functional.normalize's and cosine_similarity's smallest divisors
  const float prior = dot / (fmaxf(sqrtf(lexical_squares), 1e-12F) * fmaxf(sqrtf(query_squares), 1e-12F));
  const float cosine = joint / (fmaxf(sqrtf(field_squares), 1e-8F) * fmaxf(sqrtf(option_squares), 1e-8F));
  op.logits[k] = op.prior_scale * prior + op.gate * (op.joint_scale * cosine + op.residual.row(k)[0]);
}

const int* ints(const Tensor& t) { return reinterpret_cast<const int*>(t.address()); }

}  // namespace

void run(const OptionSummary& op, Context& context) {
  if (op.z.rows == 0) return;
  if (op.z.cols > kThreads * kHeldColumns) {
    context.check(Error{Errc::unsupported,
                        fmt::format("cuda: a head {} wide: expected at most {}", op.z.cols, kThreads * kHeldColumns)});
    return;
  }
  context.check(Launch(static_cast<unsigned>(op.z.rows), kThreads, 0, context.stream)
                    .run(option_summary, matrix<float>(op.z), matrix<const float>(op.options),
                         matrix<const float>(op.fields), ints(op.cu_options)),
                "option_summary");
}

void run(const ScorerFeatures& op, Context& context) {
  if (op.y.rows == 0) return;
  context.check(Launch(static_cast<unsigned>(op.y.rows), kThreads, 0, context.stream)
                    .run(scorer_features, matrix<float>(op.y), matrix<const float>(op.fields),
                         matrix<const float>(op.options), ints(op.question_of_option)),
                "scorer_features");
}

void run(const OptionLogits& op, Context& context) {
  if (op.logits.rows == 0) return;
  context.check(Launch(static_cast<unsigned>(op.logits.rows), kThreads, 0, context.stream)
                    .run(option_logits, Logits{matrix<float>(op.logits).data, matrix<const float>(op.lexical),
                                               matrix<const float>(op.question), matrix<const float>(op.last),
                                               matrix<const float>(op.fields), matrix<const float>(op.options),
                                               matrix<const float>(op.residual), ints(op.question_of_option),
                                               op.prior_scale, op.joint_scale, op.gate}),
                "option_logits");
}

}  // namespace clef::cuda
