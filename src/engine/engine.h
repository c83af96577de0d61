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
  EncodeOptions encode = {};  // its `vision` comes from the model
  // Of one forward pass, and so of one record: what memory is planned for. 0: 16384, or encode.max_length when more.
  std::int64_t max_tokens_in_flight = 0;
  // What the first layer makes of each token is kept on a GPU that has room for it (model/token_table.h).
  bool token_table = true;
  std::filesystem::path trace = {};  // where the layer outputs of the first request go; empty: nowhere
};

class Engine {
 public:
  // The engine owns the device that it is given and runs on it alone. Errc::out_of_memory, before anything is loaded,
  // when the device is known to have less than the plan asks for.
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

  // Packs the records of several requests in as few forward passes as max_tokens_in_flight allows. One result a
  // request, in order; a bad request does not disturb the others.
  std::vector<Result<Answer>> answer_batch(std::span<const std::string> request_jsons);

  std::string device_name() const;

  // What passes of max_tokens_in_flight need and what is free, for people. Some tens of milliseconds' work.
  Result<std::string> memory_note();
  // Runs a pass of so many tokens on a device whose memory is firm, so that others cannot take what the plan counts on.
  Status take_memory();

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace clef
