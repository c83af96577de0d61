// What a pass leaves of the first tokens of its records, where all begin alike, so that later ones need not compute it
// again: every prompt starts with the same fixed text. A token sees only those before it, so these rows are the same
// in every record, and the bits of a row do not depend on the rows beside it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/arena.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/decoder.h"

namespace clef {

// Longer beginnings are kept as far as this: a bound for the memory they take, above the length of the fixed text.
inline constexpr std::int64_t kMostKnownTokens = 64;

// What the layers and the head want of the first tokens: rows of what a product made of them, as it left them.
struct PrefixRows {
  struct Layer {
    Tensor qkv;  // [tokens, conv_width], before the convolution; or none: the layer is of attention
    Tensor ba;   // [tokens, 2 * value heads]  f32
    Tensor kv;   // [tokens, 2 * kv_width], keys normalised and rotated, then values; or none
  };
  std::int64_t tokens = 0;
  Tensor cu_seqlens;  // [1, 2]  i32: these tokens as a sequence of their own
  std::vector<Layer> layers;
  Tensor memory;  // [tokens, width]  f32, of the head

  static std::size_t bytes(std::int64_t tokens, const TextConfig& config, const HeadConfig& head,
                           const Precision& precision);
  static PrefixRows take(std::int64_t tokens, const TextConfig& config, const HeadConfig& head,
                         const Precision& precision, Arena& arena);

  // Leaves the first of x's rows in `to`, one of the matrices above.
  void keep(Pass& pass, const Tensor& to, const Tensor& x) const;
};

// The rows that are known, and of which tokens; for one thread at a time.
class KnownPrefix {
 public:
  explicit KnownPrefix(Device& device) : device_(device), arena_(device) {}

  // How many of their first tokens these records have in common and may leave to others: 0 where they do not begin
  // alike, at most kMostKnownTokens.
  static std::int64_t tokens_of(std::span<const EncodedRecord* const> records);
  // Whether these records begin with what is known.
  bool is_of(std::span<const EncodedRecord* const> records) const;

  // Makes room for the first `tokens` tokens of `record`; known once the pass that fills it has succeeded. What was
  // known before is not any more. Errc::out_of_memory.
  Status begin(const EncodedRecord& record, std::int64_t tokens, const TextConfig& config, const HeadConfig& head,
               const Precision& precision);
  void succeed() { is_known_ = true; }

  const PrefixRows& rows() const { return rows_; }

 private:
  Device& device_;
  Arena arena_;
  std::vector<std::int32_t> ids_;
  PrefixRows rows_;
  bool is_known_ = false;
};

}  // namespace clef
