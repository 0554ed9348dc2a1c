#pragma once
#include "engine/check/check.h"

// Random networks have no expected value, only an expected distribution: that of the separate
// models. Both are run with many seeds and their draws compared. Seeds are fixed, so that a check
// is reproducible.
namespace wide::detail {

/// The separate models' results with many seeds.
struct SeparateDraws {
  std::vector<Tensor> elements;  // by result: elements that are compared
  Tensors first;                 // whole results of the first seed
  Tensors drawn;                 // per result `[seeds, N, elements]`
};
/// Null if random numbers turn out not to matter (dropout with p = 0), so that values can be
/// checked.
std::shared_ptr<const SeparateDraws> draw_separate(const Program& single, const Ensemble& ensemble);

/// Checks a network that draws random numbers; `expected` has the separate models' draws.
Correctness check_random(const Program& single, const Ensemble& ensemble,
                         const WideFunction& candidate, double tolerance, bool masks_shared,
                         const Expected& expected);

}  // namespace wide::detail
