// What ops take of the GPU beside their tensors, without running them.
#pragma once

#include <cstddef>
#include <memory>

#include "ops/pass.h"

namespace clef::cuda {

std::unique_ptr<Pass> rehearse(std::size_t& bytes, bool is_hopper);

}  // namespace clef::cuda
