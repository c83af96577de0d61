#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/output_file.h"
#include "model/memory_plan.h"
#include "model/model_file.h"
#include "model/network.h"
#include "model/safetensors.h"
#include "model/vision_input.h"
#include "ops/decorators/trace_pass.h"
#include "record/respond.h"
#include "text/tokenizer.h"

namespace clef {

namespace {

constexpr std::int64_t kUsualTokensInFlight = 16384;

bool is_firm(const Device& device) {
  const auto memory = device.memory();
  return memory && memory->is_firm;
}

Status write_trace(const std::filesystem::path& path, const std::vector<TracedTensor>& stages) {
  std::vector<SafetensorsEntry> entries;
  for (const TracedTensor& stage : stages) {
    entries.push_back({stage.name, DType::f32, {stage.rows, stage.cols}});
  }
  OutputFile file = TRY(OutputFile::create(path));
  TRY(file.write(safetensors_header(entries)));
  for (const TracedTensor& stage : stages) TRY(file.write(std::as_bytes(std::span(stage.values))));
  return file.commit();
}

}  // namespace

struct Engine::State {
  State(EngineOptions options_, std::unique_ptr<Device> device_, ModelFile file_, Tokenizer tokenizer_)
      : options(std::move(options_)),
        device(std::move(device_)),
        file(std::move(file_)),
        tokenizer(std::move(tokenizer_)) {}

  EngineOptions options;
  std::unique_ptr<Device> device;
  ModelFile file;
  Tokenizer tokenizer;
  std::unique_ptr<Network> network;  // reads the file's mappings and runs on the device

  std::optional<Error> lost;  // what every record is told once the device is

  bool notices_loss(const Error& error) {
    if (!lost && device->is_lost()) {
      lost = Error{Errc::device_lost, fmt::format("{} was lost: {}", device->name(), error.message)};
    }
    return lost.has_value();
  }

  Result<std::vector<Result<Decisions>>> run(std::span<const EncodedRecord* const> records) {
    if (options.trace.empty()) return network->run(records);
    // The first record of all is traced, alone: in its pass no tokens are known from an earlier one.
    std::vector<TracedTensor> stages;
    struct Target {
      Device& device;
      std::vector<TracedTensor>& stages;
    } target{*device, stages};
    const auto wrap = [](std::unique_ptr<Pass> pass, void* context) -> std::unique_ptr<Pass> {
      auto& to = *static_cast<Target*>(context);
      return std::make_unique<TracePass>(std::move(pass), to.device, to.stages);
    };
    auto decisions = TRY(network->run(records.first(1), wrap, &target));
    TRY(write_trace(std::exchange(options.trace, {}), stages));
    if (records.size() > 1) {
      for (auto& rest : TRY(network->run(records.subspan(1)))) decisions.push_back(std::move(rest));
    }
    return decisions;
  }

  // One result a record, in order. A pass that fails for several is tried again for each alone, so that what one record
  // cannot have does not take the others with it.
  std::vector<Result<Decisions>> decide(std::span<const EncodedRecord* const> records) {
    if (lost) return {records.size(), Result<Decisions>(*lost)};
    auto together = run(records);
    if (together) return std::move(together).value();
    if (notices_loss(together.error())) return {records.size(), Result<Decisions>(*lost)};
    if (records.size() == 1) return {std::move(together).error()};
    std::vector<Result<Decisions>> decisions;
    for (const EncodedRecord* record : records) {
      auto alone = lost ? *lost : run({&record, 1});
      if (!alone && notices_loss(alone.error())) alone = *lost;
      decisions.push_back(alone ? std::move(std::move(alone).value().front()) : std::move(alone).error());
    }
    return decisions;
  }
};

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::open(const std::filesystem::path& model, std::unique_ptr<Device> device,
                                             const EngineOptions& options) {
  ModelFile file = TRY(open_model(model));
  Tokenizer tokenizer = TRY(Tokenizer::create(std::move(file.tokenizer)));
  EngineOptions complete = options;
  if (complete.max_tokens_in_flight == 0) {
    complete.max_tokens_in_flight = std::max(kUsualTokensInFlight, complete.encode.max_length);
  }
  complete.encode.max_length = std::min(complete.encode.max_length, complete.max_tokens_in_flight);
  if (file.config.vision) complete.encode.vision = TRY(vision_input(*file.config.vision));
  auto state = std::make_unique<State>(std::move(complete), std::move(device), std::move(file), std::move(tokenizer));
  bool has_token_table = false;
  if (is_firm(*state->device)) {
    const MemoryPlan plan = TRY(plan_memory_that_fits(state->file, *state->device, state->options.max_tokens_in_flight,
                                                      state->options.token_table));
    state->device->expect_weights(plan.weights);
    has_token_table = plan.token_table > 0;
  }
  state->network = TRY(Network::load(state->file, *state->device, has_token_table));
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

std::string Engine::device_name() const { return state_->device->name(); }

Result<std::string> Engine::memory_note() {
  const MemoryPlan plan = TRY(plan_memory(state_->file, *state_->device, state_->options.max_tokens_in_flight,
                                          state_->network->has_token_table()));
  std::string note = describe(plan);
  const auto memory = state_->device->memory();
  if (!memory) return note;
  // A GPU's was held against the plan before the weights were loaded.
  note += fmt::format("; {:.2f} of {:.2f} GB are free now", static_cast<double>(memory->free_bytes) / 1e9,
                      static_cast<double>(memory->total_bytes) / 1e9);
  if (!memory->is_firm && plan.total() > memory->free_bytes) note += ", which is less: it may be slow, or fail";
  return note;
}

Status Engine::take_memory() {
  if (!is_firm(*state_->device)) return {};
  const EncodedRecord record = fullest_record(state_->options.max_tokens_in_flight);
  const EncodedRecord* const records[] = {&record};
  (void)TRY(state_->network->run(records));  // what it decides is of no interest
  return {};
}

Result<Engine::Prepared> Engine::prepare(Json body) const {
  Prepared prepared;
  prepared.request = TRY(parse_request(std::move(body)));
  prepared.record = TRY(encode(prepared.request, state_->tokenizer, state_->options.encode));
  return prepared;
}

std::vector<Result<Decisions>> Engine::run(std::span<const EncodedRecord* const> records) {
  return state_->decide(records);
}

Result<Engine::Answer> Engine::answer(std::string_view request_json) {
  const std::string copy(request_json);
  return std::move(answer_batch({&copy, 1}).front());
}

std::vector<Result<Engine::Answer>> Engine::answer_batch(std::span<const std::string> request_jsons) {
  std::vector<Result<Prepared>> works;
  for (const std::string& json : request_jsons) {
    auto body = parse_json(json);
    works.push_back(body ? prepare(std::move(body).value()) : std::move(body).error());
  }

  std::vector<std::optional<Result<Decisions>>> decisions(works.size());
  std::vector<std::size_t> places;  // of the records in the pass being filled
  std::vector<const EncodedRecord*> records;
  std::int64_t tokens = 0;
  const auto run_waiting = [&] {
    if (records.empty()) return;
    auto results = run(records);
    for (std::size_t i = 0; i < places.size(); ++i) decisions[places[i]] = std::move(results[i]);
    places.clear();
    records.clear();
    tokens = 0;
  };
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (!works[i]) continue;
    const auto length = static_cast<std::int64_t>(works[i]->record.input_ids.size());
    if (tokens + length > state_->options.max_tokens_in_flight) run_waiting();
    places.push_back(i);
    records.push_back(&works[i]->record);
    tokens += length;
  }
  run_waiting();

  std::vector<Result<Answer>> answers;
  for (std::size_t i = 0; i < works.size(); ++i) {
    if (!works[i]) {
      answers.emplace_back(std::move(works[i]).error());
    } else if (!*decisions[i]) {
      answers.emplace_back(std::move(*decisions[i]).error());
    } else {
      Answer answer{.request = std::move(works[i]->request),
                    .record = std::move(works[i]->record),
                    .decisions = std::move(*decisions[i]).value(),
                    .response = {}};
      answer.response = respond(answer.request, answer.record, answer.decisions);
      answers.emplace_back(std::move(answer));
    }
  }
  return answers;
}

}  // namespace clef
