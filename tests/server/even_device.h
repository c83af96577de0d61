// A stand-in for the engine: a record of no text, and a device for which all options are equally likely.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "record/request.h"

namespace clef::server {

inline Result<Engine::Prepared> prepare_evenly(Json body) {
  Engine::Prepared prepared;
  prepared.request = TRY(parse_request(std::move(body)));
  for (const Question& question : prepared.request.questions) {
    EncodedQuestion encoded;
    encoded.id = question.id;
    encoded.type = question.type;
    for (const Option& option : question.options) encoded.option_ids.push_back(option.id);
    prepared.record.questions.push_back(std::move(encoded));
  }
  prepared.record.input_ids.assign(10 + prepared.request.state.size(), 0);
  return prepared;
}

inline std::vector<Result<Decisions>> decide_evenly(std::span<const EncodedRecord* const> records) {
  std::vector<Result<Decisions>> results;
  for (const EncodedRecord* record : records) {
    Decisions decisions;
    for (const EncodedQuestion& question : record->questions) {
      const std::size_t n = question.option_ids.size();
      decisions.logits.emplace_back(n, 0.0F);
      decisions.probabilities.emplace_back(n, 1.0 / static_cast<double>(n));
    }
    results.emplace_back(std::move(decisions));
  }
  return results;
}

}  // namespace clef::server
