// One forward pass on one device. Ops run in order; finish() is the one place where a pass can fail.
#pragma once

#include "base/result.h"
#include "ops/op.h"

namespace clef {

class Pass {
 public:
  Pass() = default;
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  virtual ~Pass() = default;

  void run(const Op& op);
  // Says that `tensor` now holds the stage called PREFIX.NAME, "layer.3.in_proj_qkv" or, without a name, "layer.3".
  // Does nothing unless someone listens (TracePass).
  virtual void mark(std::string_view prefix, std::string_view name, const Tensor& tensor);
  // Waits for everything that was run.
  virtual Status finish() = 0;

 private:
  virtual void encode(const Op& op) = 0;  // op is valid
};

}  // namespace clef
