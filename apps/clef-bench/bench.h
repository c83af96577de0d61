// What the benchmarks share: repeated timing beside the machine's own peak.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "ops/decorators/timed_pass.h"
#include "ops/device.h"
#include "ops/op.h"
#include "record/encode.h"

namespace clef::bench {

struct Settings {
  int num_threads = 0;
  std::string kernels;  // empty: the best
  int runs = 5;
};

double median(std::vector<double> values);

// Seconds that `work` takes: the median of settings.runs after one run to warm up. Before each run the FMA peak is
// measured, so that both see the same machine; its median goes to peak_flops.
double time_beside_peak(const Settings& settings, const std::function<void()>& work, double& peak_flops);

// The processor's name as the system tells it.
std::string machine_name();

// What the machine reaches at best, in a second.
struct Peak {
  double flops = 0, bytes = 0;
};
// Seconds that an op takes: the median of seven runs, after one to warm up, of `repeats` of it one after another.
Result<double> seconds_of(const Op& op, int repeats, Device& device);
// Bytes that cross memory in a second while a matrix is added to another, or normalised, whichever is more.
Result<double> memory_rate(Device& device);

// A table of what each op took, beside the whole's seconds; `of floor` is the share of its time that its arithmetic or
// its bytes, whichever takes longer, would take at the machine's peak.
void print_op_times(const OpTimes& times, double seconds, const Peak& peak);

// A record of `tokens` tokens, at least 64, with one question of three options near its end. The first 36 are the same
// in all, as in Clef's prompts.
EncodedRecord make_record(std::int64_t tokens, std::int64_t vocab_size, std::uint32_t seed);
// An image of so many patches, a multiple of 4, as square as they can be.
EncodedMedia make_image(std::int64_t patches, const VisionConfig& config);
// One such image and `tokens` tokens of text.
EncodedRecord make_image_record(std::int64_t patches, std::int64_t tokens, const VisionConfig& config,
                                std::int64_t vocab_size);

struct EngineBench {
  std::string device = "auto", f32_layers, model;
  std::vector<int> tokens{346, 1382, 4510}, batches{1}, patches;  // each length in each batch, then each image
  std::int64_t max_tokens_in_flight = 0;                          // 0: of the largest of those
  int rest_ms = 0;                                                // before each counted run
  bool by_op = false;
  bool token_table = true;  // if there is room for it, on a GPU
  bool whole = false;       // every run computes the tokens that all prompts begin with
};
int bench_engine(const Settings& settings, const EngineBench& options);
int bench_linear(const Settings& settings, const std::vector<int>& rows);
int bench_forward(const Settings& settings, const std::string& model, const std::vector<int>& tokens);
int bench_image(const Settings& settings, const std::string& path);
int bench_vision(const Settings& settings, const std::string& model, const std::vector<int>& patches);
int bench_tokenizer(const Settings& settings, const std::string& model, const std::string& file);

}  // namespace clef::bench
