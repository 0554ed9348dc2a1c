#pragma once
#include <ATen/core/Tensor.h>

namespace wide {

/// Random numbers without a generator: Philox4x32-10 of a model's seed, its step, the call's site
/// and the element. `seed` and `step` are int64 `[]`, or `[N]` with one for each model; the numbers
/// depend neither on a model's position among N nor on the dtype.

/// `wide::counter_dropout`: y = x mask / (1 - p) with a mask of x's first `drawn` dimensions (after
/// N), the same along the others. p has the sizes of seed and a floating dtype; `otherwise`
/// replaces a p below 0. Its gradient draws the mask again. float32 and float64 on the CPU.
at::Tensor counter_dropout(const at::Tensor& x, const at::Tensor& seed, const at::Tensor& step,
                           const at::Tensor& p, double otherwise, int64_t site, int64_t drawn);

/// `wide::counter_uniform`: uniform in [0, 1) in steps of 2^-24, `[size]` or `[N, size]`.
at::Tensor counter_uniform(const at::Tensor& seed, const at::Tensor& step, int64_t site,
                           at::IntArrayRef size, at::ScalarType dtype);

/// `wide::counter_normal`: standard normal, by Box and Muller's method.
at::Tensor counter_normal(const at::Tensor& seed, const at::Tensor& step, int64_t site,
                          at::IntArrayRef size, at::ScalarType dtype);

}  // namespace wide
