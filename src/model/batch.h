// Records side by side, as the network reads them: tokens packed without padding, and where each record's parts lie.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/arena.h"
#include "model/config.h"
#include "model/rope.h"
#include "model/vision.h"
#include "ops/device.h"
#include "record/encode.h"

namespace clef {

struct FirstProducts;
struct PrefixRows;

struct Batch {
  std::int64_t tokens = 0, records = 0, questions = 0, options = 0;
  std::int64_t all_tokens = 0;               // with those that are known from an earlier pass and not computed again
  const PrefixRows* known = nullptr;         // of each record's first tokens; or none: all are computed
  const FirstProducts* of_tokens = nullptr;  // of the whole vocabulary, to be looked up; or none: they are computed
  const PrefixRows* kept = nullptr;          // where this pass leaves those of its first record; or nowhere

  Tensor ids;         // [1, tokens]       i32
  Tensor cu_seqlens;  // [1, records + 1]  i32, of all tokens
  Tensor positions;   // [tokens, 3]  i32: time, height, width, each in its record
  Tensor cos, sin;  // [positions, rotary pairs]  f32, of every position up to some; the packing's, until it packs again

  PreciseRows precise;  // the tokens of questions and options

  // For the head; rows of questions and of options are stacked record by record, question by question.
  Tensor question_spans;      // [questions, 2]  i32: first token of the batch, count
  Tensor option_spans;        // [options, 2]    i32
  Tensor last_token_spans;    // [questions, 2]  i32: the last token of the question's record
  Tensor cu_questions;        // [1, records + 1]    i32, first question of each record
  Tensor cu_record_options;   // [1, records + 1]    i32, first option of each record
  Tensor cu_options;          // [1, questions + 1]  i32, first option of each question
  Tensor question_of_option;  // [1, options]    i32
  Tensor question_types;      // [1, questions]  i32: rows of the type embedding

  VisionBatch vision;  // without patches when no record has media

  std::vector<std::vector<std::int64_t>> num_options;  // by record, by question
  std::shared_ptr<DeviceTables> tables;                // owns the above
};

// What packing keeps from batch to batch: angles, and memory for lists.
struct Packing {
  Packing(const ModelConfig& config, Device& device_) : device(device_), angles(config.text, device_) {
    if (config.vision) vision.emplace(*config.vision, device_);
  }
  Device& device;
  DeviceAngles angles;
  std::optional<VisionPacking> vision;   // of a model with a tower
  std::shared_ptr<DeviceTables> tables;  // of the last batch: memory for the next one's when that batch is gone
};

// Each id must be below vocab_size, and each record hold at least one question and one token; only a model with a tower
// takes records with media. Where the records' first tokens are known, their schemas and media begin behind them.
Result<Batch> pack(std::span<const EncodedRecord* const> records, const ModelConfig& config, Packing& packing,
                   const PrefixRows* known = nullptr);

}  // namespace clef
