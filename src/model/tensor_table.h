// The tensors that a model's files hold, by name, before anything is known about the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace clef {

// Outermost dimension first; empty for a scalar.
using Shape = std::vector<std::int64_t>;

std::string to_string(std::span<const std::int64_t> shape);  // "[2, 3]"

// The number of elements, or -1 when it does not fit 2^62.
std::int64_t count_of(std::span<const std::int64_t> shape);

// One tensor where it lies in a mapped file. The reader has checked that `bytes` has the size of shape and dtype.
struct FileTensor {
  std::string file;  // its name, for messages
  DType dtype = DType::bf16;
  Shape shape;
  std::span<const std::byte> bytes;
};

using TensorTable = std::map<std::string, FileTensor, std::less<>>;

}  // namespace clef
