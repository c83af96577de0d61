#include "backend/cpu/run.h"

#include <algorithm>
#include <new>

namespace clef::cpu {

namespace {
constexpr std::align_val_t kCacheLine{64};
}

void Scratch::Free::operator()(float* memory) const { ::operator delete(memory, kCacheLine); }

float* Scratch::floats(std::size_t count) {
  if (count > count_) {
    memory_.reset();
    count_ = 0;
    memory_.reset(static_cast<float*>(::operator new(count * sizeof(float), kCacheLine)));
    count_ = count;
  }
  return memory_.get();
}

void Context::for_rows(std::int64_t rows, const std::function<void(std::int64_t, std::int64_t)>& work) {
  constexpr std::int64_t kRows = 16;
  pool.for_each((rows + kRows - 1) / kRows, [&](std::int64_t block, int) {
    const std::int64_t first = block * kRows;
    work(first, std::min(kRows, rows - first));
  });
}

WeightType weight_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return WeightType::bf16;
    case DType::f16:
      return WeightType::f16;
    case DType::f32:
      return WeightType::f32;
    default:
      break;
  }
  CHECK(false, "{} is no weight type", name_of(dtype));
}

}  // namespace clef::cpu
