// What FP16 loses of an activation, kept beside it for the rows that matter.
#pragma once

#include "ops/io.h"

namespace clef {

// Which rows of an activation matter most: those of questions and options.
struct PreciseRows {
  In rows = {};    // [1, count]     i32, ascending
  In places = {};  // [1, all rows]  i32: a row's place in `rows`, or -1
  std::int64_t count() const { return rows.cols; }
  explicit operator bool() const { return static_cast<bool>(places); }
};

// x = high + scale * low in the rows that matter, which without PreciseRows are all: high is the f16 matrix that this
// stands beside, low what is left of these rows alone, as E4M3. A row's scale is a power of two. Only a machine that
// says so is given these (Device::has_low_parts).
template <typename Role>
struct LowPartOf {
  Role values = {};  // [precise rows, cols]  u8, rows a multiple of 16 bytes apart
  Role scales = {};  // [1, precise rows]     f32
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

// There is none, or it fits x, which is f16, and the rows.
template <typename Role>
bool is_optional_low_part(const LowPartOf<Role>& low, const Tensor& x, const PreciseRows& precise) {
  const std::int64_t count = precise ? precise.count() : x.rows;
  return !low || (x.dtype == DType::f16 && is_matrix(low.values, count, x.cols, DType::u8) &&
                  low.values.stride % kLowAlignment == 0 && is_vector(low.scales, count));
}
// Of the first `count` rows.
inline LowPart first_rows(const LowPart& low, std::int64_t count) {
  if (!low) return low;
  LowPart part;
  part.values = low.values.row_range(0, count);
  part.scales = low.scales.col_range(0, count);
  return part;
}
// There are none, or they are rows of x.
inline bool are_rows_of(const PreciseRows& precise, const Tensor& x) {
  return !precise || (is_vector(precise.places, x.rows, DType::i32) && precise.count() <= x.rows &&
                      is_vector(precise.rows, precise.count(), DType::i32));
}

}  // namespace clef
