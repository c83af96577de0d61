// What FP16 loses of an activation, kept beside it for the rows that matter.
#pragma once

#include "ops/io.h"

namespace clef {

// x = high + scale * low: high is the f16 matrix that this stands beside, low what is left, as E4M3. A row's scale is a
// power of two. Rows that do not matter, those that `precise` [1, rows] i32 marks with 0, have zeros; without `precise`
// all rows matter. Only a machine that says so is given these (Device::has_low_parts).
template <typename Role>
struct LowPartOf {
  Role values = {};  // [rows, cols]  u8, rows a multiple of 16 bytes apart
  Role scales = {};  // [1, rows]     f32
  explicit operator bool() const { return static_cast<bool>(values); }
};
struct LowPart : LowPartOf<Tensor> {};
struct LowIn : LowPartOf<In> {
  LowIn() = default;
  LowIn(const LowPart& part) : LowPartOf{part.values, part.scales} {}  // implicit by design, as In
};
struct LowOut : LowPartOf<Out> {
  LowOut() = default;
  LowOut(const LowPart& part) : LowPartOf{part.values, part.scales} {}
};

inline constexpr std::int64_t kLowAlignment = 16;  // bytes, of a row
inline std::int64_t low_stride(std::int64_t cols) { return (cols + kLowAlignment - 1) / kLowAlignment * kLowAlignment; }

// There is none, or it fits x, which is f16.
template <typename Role>
bool is_optional_low_part(const LowPartOf<Role>& low, const Tensor& x) {
  return !low || (x.dtype == DType::f16 && is_matrix(low.values, x.rows, x.cols, DType::u8) &&
                  low.values.stride % kLowAlignment == 0 && is_vector(low.scales, x.rows));
}
// There are none, or a number for each row of x.
inline bool marks_rows(const Tensor& precise, const Tensor& x) {
  return !precise || is_vector(precise, x.rows, DType::i32);
}

}  // namespace clef
