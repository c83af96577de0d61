// What the first layer's products make of every token of the vocabulary, made once, so that a pass looks its rows up:
// no token has met another before the first layer's convolution, and a row's bits do not depend on the rows beside it.
#pragma once

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "model/arena.h"
#include "model/config.h"
#include "model/decoder.h"

namespace clef {

class TokenTable {
 public:
  // For a decoder that begins with Gated DeltaNet, as all do; else none. Some tens of milliseconds on a GPU, for what
  // is 12.3 GB with Clef-Flash. Errc::out_of_memory.
  static Result<std::unique_ptr<TokenTable>> make(const Decoder& decoder, const TextConfig& config, Device& device);
  static std::size_t bytes(const TextConfig& config, const Precision& precision);

  // Whether a pass of that precision may look its rows up.
  bool is_for(const Precision& precision) const { return precision == precision_; }
  const FirstProducts& rows() const { return rows_; }

 private:
  TokenTable(Device& device, const Precision& precision) : arena_(device), precision_(precision) {}
  Arena arena_;
  Precision precision_;
  FirstProducts rows_;  // [vocab_size, ...]
};

}  // namespace clef
