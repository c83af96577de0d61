#include "ops/pass.h"

namespace clef {

void Pass::run(const Op& op) {
  CHECK(is_valid(op), "{}", name_of(op));
  encode(op);
}

void Pass::mark(std::string_view /*prefix*/, std::string_view /*name*/, const Tensor& /*tensor*/) {}

}  // namespace clef
