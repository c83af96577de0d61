// A model, opened, and the way from a request's bytes to its answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ops/device.h"
#include "record/decision.h"
#include "record/encode.h"
#include "record/request.h"
#include "text/json.h"

namespace clef {

struct EngineOptions {
  EncodeOptions encode;                   // its `vision` comes from the model
  std::int64_t max_batch_tokens = 16384;  // of one forward pass; a longer record runs alone
  std::filesystem::path trace;            // where the layer outputs of the first request go; empty: nowhere
};

class Engine {
 public:
  // The engine owns the device that it is given and runs on it alone.
  static Result<std::unique_ptr<Engine>> open(const std::filesystem::path& model, std::unique_ptr<Device> device,
                                              const EngineOptions& options);
  ~Engine();

  // A request on its way: what the device runs, and what the answer needs beside the decisions.
  struct Prepared {
    Request request;
    EncodedRecord record;
  };
  // The host's share of an answer. From any thread, several at once, and while run() is at work.
  Result<Prepared> prepare(Json body) const;

  // The device's share: one forward pass over all records. One result a record, in order; what one record cannot have
  // does not take the others with it. From one thread at a time.
  std::vector<Result<Decisions>> run(std::span<const EncodedRecord* const> records);

  struct Answer {
    Request request;
    EncodedRecord record;
    Decisions decisions;
    Json response;
  };
  Result<Answer> answer(std::string_view request_json);

  // Packs the records of several requests in as few forward passes as max_batch_tokens allows. One result a request, in
  // order; a bad request does not disturb the others.
  std::vector<Result<Answer>> answer_batch(std::span<const std::string> request_jsons);

  std::string device_name() const;

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace clef
