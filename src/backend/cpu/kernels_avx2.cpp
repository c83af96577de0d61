// The kernels for machines with AVX2, FMA and F16C; compiled with its flags, so nothing but the table leaves
// this file.
#include "backend/cpu/kernels/vec_avx2.h"  // first: the words the rest is written in

#include "backend/cpu/kernels/table.h"

namespace clef::cpu {

constinit const Kernels kKernelsAvx2 = make_table("avx2");

}  // namespace clef::cpu
