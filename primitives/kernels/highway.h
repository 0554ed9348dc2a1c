// Highway compiles one source for every instruction set and calls the best one that the CPU has. A
// kernel's .cpp has this order:
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
//   WIDE_DISPATCHED(void, work, (float* x, int64_t count), x, count)
//   }
//   #endif
//
// Other headers come before HWY_BEFORE_NAMESPACE: after it, their functions would be compiled for
// an instruction set that the CPU may lack. The scalar set has one lane and no operations between
// lanes. This header has no include guard, as Highway's headers must be included each time; no
// other header may include <hwy/highway.h> before it.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

/// Defines a function that calls the best one of its name for this CPU.
#ifndef WIDE_DISPATCHED
#define WIDE_DISPATCHED(result, name, parameters, ...) \
  HWY_EXPORT(name);                                    \
  result name parameters { return HWY_DYNAMIC_DISPATCH(name)(__VA_ARGS__); }
#endif
