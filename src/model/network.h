// A Clef network on a device: backbone and head together.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/decoder.h"
#include "model/head.h"
#include "model/known_prefix.h"
#include "model/model_file.h"
#include "model/token_table.h"
#include "model/vision.h"

namespace clef {

class Network {
 public:
  // `file`'s mappings and `device` must outlive the network. With a token table (model/token_table.h), for which there
  // should be room, passes without media are shorter, and have the same bits.
  static Result<std::unique_ptr<Network>> load(const ModelFile& file, Device& device, bool has_token_table = false);

  // One forward pass over all records. The outer error is the pass's; the inner ones are the records'. A record whose
  // values left the range of the device's activations is run once more, alone and in f32.
  // `wrap`, when given, puts a decorator around the pass.
  using Wrap = std::unique_ptr<Pass> (*)(std::unique_ptr<Pass> pass, void* context);
  Result<std::vector<Result<Decisions>>> run(std::span<const EncodedRecord* const> records, Wrap wrap = nullptr,
                                             void* context = nullptr);

  bool has_token_table() const { return token_table_ != nullptr; }

  // Every prompt begins with the same text. With this, as it is at first, a pass leaves the rows of those tokens to
  // later ones, whose results have the same bits; without, every pass computes all of its tokens.
  void share_prefix(bool shares) { shares_prefix_ = shares; }

  // Device memory that a pass over this many tokens takes, beside the weights (questions and options add little).
  std::size_t activation_bytes(std::int64_t tokens) const;

 private:
  Network(const ModelFile& file, Device& device);
  Result<std::vector<Result<Decisions>>> run(std::span<const EncodedRecord* const> records, const Precision& precision,
                                             bool shares_prefix, Wrap wrap, void* context);
  ModelConfig config_;
  Device& device_;
  WeightLoader loader_;
  Packing packing_;
  Arena arena_;
  std::optional<VisionTower> tower_;
  Decoder decoder_;
  Head head_;
  std::unique_ptr<TokenTable> token_table_;  // or none
  KnownPrefix prefix_;
  bool shares_prefix_ = true;
};

}  // namespace clef
