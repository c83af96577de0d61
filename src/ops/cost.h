// What an op costs at least, for tables of speed.
#pragma once

#include "ops/device.h"
#include "ops/op.h"

namespace clef {

// Floating point operations, an fma counting two: of the products only, since the rest is small beside them.
// Causal attention counts the keys that each query sees, which the device is asked for.
double flops(const Op& op, Device& device);

// Bytes that cross memory: each tensor once, what is read and written twice. Of a tensor whose rows are looked up, as
// many rows as are written.
double bytes(const Op& op);

}  // namespace clef
