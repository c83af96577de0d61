// Matrix products with what follows them. W is stored [out, in]; y = x * W^T. Sums run over `in` in blocks of
// kDepthBlock, ascending inside a block and from block to block, whatever the number of rows.
#pragma once

#include <string_view>
#include <tuple>
#include <vector>

#include "ops/low_part.h"

namespace clef {

// Where `precise` is there, all other rows matter less: a machine whose own activations are f16 may round their x to
// it. Without it all rows of an f32 x are taken as they are. Where `low` is there, x stands for the sum of both in the
// precise rows; the weights are then ones that adopt_low() was told of (Device). Where `items` is set, the rows
// are questions or options. They are few, and a machine may sum them in another order than rows of tokens; the order
// still does not depend on their number.

// y = x * W^T + bias
struct Linear {
  static constexpr std::string_view name = "linear";
  Out y;    // [rows, n]  activation, or f32
  In x;     // [rows, k]  activation
  In w;     // [n, k]     a weight
  In bias;  // [1, n]     f32, or none
  bool items = false;
  auto tensors() const { return std::tie(y, x, w, bias); }
};
bool valid(const Linear& op);
void define(const Linear& op);

// Two or three products of one input, side by side: y = [x * first^T, x * second^T, x * third^T] + bias; or without a
// bias two more that stay f32: gates = [x * gate_first^T, x * gate_second^T]
struct Projections {
  static constexpr std::string_view name = "projections";
  Out y;                                 // [rows, first.rows + second.rows + third.rows]  activation, or f32
  In x;                                  // [rows, k]  activation
  In first, second;                      // [n_i, k]   weights
  In third;                              // [n_3, k]   a weight, or none
  Out gates = {};                        // [rows, gate_first.rows + gate_second.rows]  f32, or none
  In gate_first = {}, gate_second = {};  // [n_i, k]  weights, or none
  PreciseRows precise = {};              // or none
  LowIn low = {};                        // of x, or none
  In bias = {};                          // [1, y.cols]  f32, or none
  bool items = false;                    // not where there are gates
  auto tensors() const {
    return std::tie(y, x, first, second, third, gates, gate_first, gate_second, precise.rows, precise.places,
                    low.values, low.scales, bias);
  }
};
bool valid(const Projections& op);
std::vector<Tensor> parts(const Projections& op);       // its weights, in the order of y's columns
std::vector<Tensor> gate_parts(const Projections& op);  // of the gates' columns
void define(const Projections& op);

// y += x * W^T + bias: a sublayer's way back into the residual stream
struct LinearAdd {
  static constexpr std::string_view name = "linear_add";
  InOut y;  // [rows, n]  f32
  In x;     // [rows, k]  activation
  In w;     // [n, k]     a weight
  In bias;  // [1, n]     f32, or none
  bool items = false;
  PreciseRows precise = {};  // or none
  LowIn low = {};            // of x, or none
  auto tensors() const { return std::tie(y, x, w, bias, precise.rows, precise.places, low.values, low.scales); }
};
bool valid(const LinearAdd& op);
void define(const LinearAdd& op);

// y = silu(x * gate^T) * (x * up^T)      Source: Qwen3_5MLP.
struct LinearSwiglu {
  static constexpr std::string_view name = "linear_swiglu";
  Out y;                     // [rows, n]  activation
  In x;                      // [rows, k]  activation
  In gate;                   // [n, k]     a weight
  In up;                     // [n, k]     a weight
  PreciseRows precise = {};  // or none
  LowIn low = {};            // of x, or none
  LowOut y_low = {};         // of y, or none; with that of x, and only then
  Out low_sums = {};         // [precise rows, 2 * n]  f16, without gaps, with low: memory for its products
  Out remainder = {};        // [precise rows, n]      f16, without gaps, with low: memory that y_low is made in
  auto tensors() const {
    return std::tie(y, x, gate, up, precise.rows, precise.places, low.values, low.scales, y_low.values, y_low.scales,
                    low_sums, remainder);
  }
};
bool valid(const LinearSwiglu& op);
void define(const LinearSwiglu& op);

enum class Gelu { erf, tanh };

// y = gelu(x * W^T + bias)      Source: nn.GELU (erf) in the head and the merger, gelu_pytorch_tanh in vision blocks.
struct LinearGelu {
  static constexpr std::string_view name = "linear_gelu";
  Out y;    // [rows, n]  activation
  In x;     // [rows, k]  activation
  In w;     // [n, k]     a weight
  In bias;  // [1, n]     f32, or none
  Gelu gelu = Gelu::erf;
  bool items = false;
  auto tensors() const { return std::tie(y, x, w, bias); }
};
bool valid(const LinearGelu& op);
void define(const LinearGelu& op);

}  // namespace clef
