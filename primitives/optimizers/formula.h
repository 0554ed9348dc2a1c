#pragma once
#include "engine/train/optimizer/optimizer.h"

/// Compiles a function for AVX-512, AVX2 and any x86-64; chosen when the program starts.
#if defined(__x86_64__)
#define WIDE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE_CLONES
#endif

/// Defines `NAME_f32` and `NAME_f64`, which call `NAME<T>(const ParameterStep<T>&)`, for several
/// kinds of CPU. Each number is computed by itself in the formula's order, so that its bits depend
/// neither on its position nor on how many there are.
#define WIDE_OPTIMIZER_STEPS(NAME)                                                       \
  WIDE_CLONES void NAME##_f32(const ::wide::ParameterStep<float>& s) { NAME<float>(s); } \
  WIDE_CLONES void NAME##_f64(const ::wide::ParameterStep<double>& s) { NAME<double>(s); }

/// Inlines a formula into each of these functions.
#define WIDE_FORMULA [[gnu::always_inline]] inline
