#pragma once
#include <cmath>

#include "engine/train/optimizer/optimizer.h"

/// Built three times, for AVX-512, AVX2 and any x86-64; chosen when the program starts.
#if defined(__x86_64__)
#define WIDE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE_CLONES
#endif

/// Defines `NAME_f32` and `NAME_f64`, what `NAME<T>(const ParameterStep<T>&)` does, for several
/// kinds of CPU. The order of operations is that of the formula; each number is its own, so that
/// bits hang neither on where it lies nor on how many there are.
#define WIDE_OPTIMIZER_STEPS(NAME)                                                       \
  WIDE_CLONES void NAME##_f32(const ::wide::ParameterStep<float>& s) { NAME<float>(s); } \
  WIDE_CLONES void NAME##_f64(const ::wide::ParameterStep<double>& s) { NAME<double>(s); }

/// A formula is inlined into each of them.
#define WIDE_FORMULA [[gnu::always_inline]] inline
