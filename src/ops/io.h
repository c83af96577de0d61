// The roles of an op's tensors, so that decorators (trace, poison, timing) can walk them without knowing the op.
#pragma once

#include "base/tensor.h"

namespace clef {

struct In : Tensor {
  In() = default;
  In(const Tensor& t) : Tensor(t) {}  // implicit by design
};
struct Out : Tensor {
  Out() = default;
  Out(const Tensor& t) : Tensor(t) {}
};
struct InOut : Tensor {
  InOut() = default;
  InOut(const Tensor& t) : Tensor(t) {}
};

// The tensor is there and has this shape and type.
inline bool is_matrix(const Tensor& t, std::int64_t rows, std::int64_t cols, DType dtype) {
  return t && t.rows == rows && t.cols == cols && t.dtype == dtype;
}
inline bool same_rows(const Tensor& a, const Tensor& b) { return a && b && a.rows == b.rows; }
inline bool is_vector(const Tensor& t, std::int64_t cols, DType dtype = DType::f32) {
  return is_matrix(t, 1, cols, dtype);
}
// Activations between the products of a layer are f32, or f16 on a machine whose products want that (Device). All
// activations of one op have one type, but for those that its contract calls f32.
inline bool is_activation(DType dtype) { return dtype == DType::f32 || dtype == DType::f16; }
inline bool is_weight(const Tensor& t, std::int64_t rows, std::int64_t cols) {
  return t && t.rows == rows && t.cols == cols && t.stride == cols &&
         (t.dtype == DType::bf16 || t.dtype == DType::f16 || t.dtype == DType::f32);
}
inline bool is_optional_vector(const Tensor& t, std::int64_t cols) { return !t || is_vector(t, cols); }

}  // namespace clef
