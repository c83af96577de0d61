// The kernels in plain C++, for any machine.
#include "backend/cpu/kernels/vec_plain.h"  // first: the words the rest is written in

#include "backend/cpu/kernels/table.h"

namespace clef::cpu {

constinit const Kernels kKernelsPlain = make_table("plain");

}  // namespace clef::cpu
