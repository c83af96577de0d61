#include "model/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "model/network.h"

namespace clef {

namespace {

// The shortest option takes about so many tokens: "OPTION 1: {"option_id":"a"}" and a line end.
constexpr std::int64_t kTokensAnOption = 12;
constexpr std::int64_t kOptionsAQuestion = 4;

// Counts what is asked of it, and computes nothing.
class CountingDevice final : public Device {
 public:
  explicit CountingDevice(Device& real) : real_(real) {}

  std::string name() const override { return real_.name(); }
  DType activation_dtype() const override { return real_.activation_dtype(); }
  std::optional<std::int64_t> precise_layers() const override { return real_.precise_layers(); }
  bool has_low_parts() const override { return real_.has_low_parts(); }

  Result<std::unique_ptr<Buffer>> allocate(std::size_t bytes) override {
    return std::unique_ptr<Buffer>(std::make_unique<CountedBuffer>(bytes, *this));
  }
  Result<Tensor> adopt(std::span<const std::byte> /*mapped*/, const Tensor& shape) override {
    weights_ += real_.adopted_bytes(shape);
    Tensor tensor = shape;
    tensor.buffer = &weight_;
    tensor.stride = shape.cols;
    return tensor;
  }
  Status adopt_low(const Tensor& weight) override {
    weights_ += real_.adopted_low_bytes(weight);
    return {};
  }
  Status upload(const Tensor& /*to*/, std::span<const std::byte> /*bytes*/) override { return {}; }
  Status download(std::span<std::byte> bytes, const Tensor& /*from*/) override {
    std::memset(bytes.data(), 0, bytes.size());
    return {};
  }
  std::unique_ptr<Pass> begin() override { return real_.rehearse(workspace_); }

  std::size_t weights() const { return weights_; }
  std::size_t workspace() const { return workspace_; }
  std::size_t allocated() const { return allocated_; }
  std::size_t most_allocated() const { return most_allocated_; }

 private:
  struct CountedBuffer final : Buffer {
    CountedBuffer(std::size_t size, CountingDevice& device_) : Buffer(nullptr, size), device(device_) {
      device.allocated_ += size;
      device.most_allocated_ = std::max(device.most_allocated_, device.allocated_);
    }
    ~CountedBuffer() override { device.allocated_ -= bytes(); }
    CountingDevice& device;
  };

  Device& real_;
  Buffer weight_{nullptr, 0};
  std::size_t weights_ = 0, workspace_ = 0, allocated_ = 0, most_allocated_ = 0;
};

// What a pass of pictures alone takes beyond one of as much text.
std::size_t picture_bytes(const ModelConfig& config, const Device& device, std::int64_t tokens) {
  const VisionConfig& vision = *config.vision;
  const std::int64_t patches = tokens * vision.spatial_merge_size * vision.spatial_merge_size;
  const Precision precision = precision_for(config.text, device);
  const std::size_t text = DecoderMemory::bytes(config.text, {.tokens = tokens, .all_tokens = tokens}, precision);
  // In f32, as a record is run again whose values left the range of f16.
  const std::size_t tower =
      DecoderMemory::residual_bytes(config.text, tokens) + VisionScratch::bytes(vision, patches, DType::f32);
  // Levels, four rows of the position table with their weights, cosines and sines: VisionBatch, VisionLayout.
  const auto row = static_cast<std::size_t>(vision.patch_width()) + 4 * (sizeof(std::int32_t) + sizeof(float)) +
                   static_cast<std::size_t>(vision.hidden_size / vision.num_heads) * sizeof(float);
  return static_cast<std::size_t>(patches) * row + (tower > text ? tower - text : 0);
}

double gigabytes(std::size_t bytes) { return static_cast<double>(bytes) / 1e9; }

}  // namespace

EncodedRecord fullest_record(std::int64_t tokens) {
  EncodedRecord record;
  record.input_ids.assign(static_cast<std::size_t>(tokens), 0);
  const std::int64_t known = tokens > kMostKnownTokens ? kMostKnownTokens : 0;  // for which memory is kept
  record.media_offset = record.schema_first = known;
  const std::int64_t options = std::max<std::int64_t>(1, tokens / kTokensAnOption);
  for (std::int64_t first = 0; first < options; first += kOptionsAQuestion) {
    EncodedQuestion& question = record.questions.emplace_back();
    question.type = QuestionType::choice;
    question.span = {.first = known, .count = 1};
    const std::int64_t count = std::min(kOptionsAQuestion, options - first);
    question.option_spans.assign(static_cast<std::size_t>(count), Span{.first = known, .count = 1});
  }
  return record;
}

Result<MemoryPlan> plan_memory(const ModelFile& file, Device& device, std::int64_t tokens, bool has_token_table) {
  CHECK(tokens > 0);
  CountingDevice counting(device);
  const std::unique_ptr<Network> network = TRY(Network::load(file, counting, has_token_table));
  MemoryPlan plan{.tokens = tokens, .weights = counting.weights()};
  if (has_token_table) plan.token_table = TokenTable::bytes(file.config.text, precision_for(file.config.text, device));
  plan.tables = counting.allocated() - plan.token_table;
  const EncodedRecord record = fullest_record(tokens);
  const EncodedRecord* const records[] = {&record};
  (void)TRY(network->run(records));
  plan.activations = counting.most_allocated() - plan.tables - plan.token_table;
  plan.workspace = counting.workspace();
  if (file.config.vision) plan.activations += picture_bytes(file.config, device, tokens);
  return plan;
}

Result<MemoryPlan> plan_memory_that_fits(const ModelFile& file, Device& device, std::int64_t tokens,
                                         bool wants_token_table) {
  const auto memory = device.memory();
  if (wants_token_table && memory && memory->is_firm) {
    const MemoryPlan plan = TRY(plan_memory(file, device, tokens, true));
    if (check_fits(plan, device)) return plan;
  }
  const MemoryPlan plan = TRY(plan_memory(file, device, tokens));
  TRY(check_fits(plan, device));
  return plan;
}

std::string describe(const MemoryPlan& plan) {
  const std::string table =
      plan.token_table > 0 ? fmt::format("token table {:.2f}, ", gigabytes(plan.token_table)) : "";
  return fmt::format("{} tokens in flight: {:.2f} GB (weights {:.2f}, {}activations {:.2f}, ops {:.2f})", plan.tokens,
                     gigabytes(plan.total()), gigabytes(plan.weights + plan.tables), table, gigabytes(plan.activations),
                     gigabytes(plan.workspace));
}

Status check_fits(const MemoryPlan& plan, const Device& device) {
  const auto memory = device.memory();
  if (!memory || !memory->is_firm || plan.total() <= memory->free_bytes) return {};
  const std::size_t fixed = plan.weights + plan.tables + plan.token_table, pass = plan.activations + plan.workspace;
  const std::string free =
      fmt::format("{:.2f} of {:.2f} GB are free", gigabytes(memory->free_bytes), gigabytes(memory->total_bytes));
  std::string advice = "the weights alone do not fit";
  if (fixed < memory->free_bytes) {
    const double share = static_cast<double>(memory->free_bytes - fixed) / static_cast<double>(pass);
    advice =
        fmt::format("about {:.0f} tokens would fit (--max-tokens-in-flight)", share * static_cast<double>(plan.tokens));
  }
  return Error{Errc::out_of_memory, fmt::format("{}: {}; {}: {}", device.name(), describe(plan), free, advice)};
}

}  // namespace clef
