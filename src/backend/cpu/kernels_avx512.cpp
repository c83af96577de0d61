// The kernels for machines with AVX-512; compiled with its flags, so nothing but the table leaves this file.
#include "backend/cpu/kernels/vec_avx512.h"  // first: the words the rest is written in

#include "backend/cpu/kernels/table.h"

namespace clef::cpu {

constinit const Kernels kKernelsAvx512 = make_table("avx512");

}  // namespace clef::cpu
