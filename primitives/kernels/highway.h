// Highway: one source, compiled for every instruction set, of which the best that the CPU has is
// called. A kernel's .cpp that uses it is in this order:
//
//   #include "primitives/kernels/name.h"          // its own header, the standard's, ATen's
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "primitives/kernels/name.cpp"  // itself, compiled for each
//   #include "primitives/kernels/highway.h"
//
//   HWY_BEFORE_NAMESPACE();
//   namespace wide::name::HWY_NAMESPACE {
//   void work(float* x, int64_t count) { ... }
//   }
//   HWY_AFTER_NAMESPACE();
//
//   #if HWY_ONCE                                  // what is there once: registration too
//   namespace wide::name {
//   HWY_EXPORT(work);
//   void run(float* x, int64_t count) { HWY_DYNAMIC_DISPATCH(work)(x, count); }
//   }
//   #endif
//
// Other headers come before HWY_BEFORE_NAMESPACE: after it, what they define would be compiled for
// an instruction set that may not be there. The scalar set has one lane and nothing that moves
// values between lanes. No guard here: Highway's headers do what is due every time, if no other
// includes <hwy/highway.h> before this one.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
