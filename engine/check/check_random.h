#pragma once
#include "engine/check/check.h"

// Random networks have no expected value, only an expected distribution: that of the separate
// models. Both are run with many seeds and their draws compared. Seeds are fixed, so that what
// passes once passes always.
namespace wide::detail {

/// What the separate models draw with many seeds.
struct SeparateDraws {
  std::vector<Tensor> elements;  // by result: those that are looked at
  Tensors first;                 // whole results of the first seed
  Tensors drawn;                 // per result `[seeds, N, elements]`
};
/// Null when the network turns out to draw nothing that matters (dropout with p = 0), so that its
/// values can be checked.
std::shared_ptr<const SeparateDraws> draw_separate(const Program& single, const Ensemble& ensemble);

/// The check of a network that draws random numbers: `expected` has its draws.
Correctness check_random(const Program& single, const Ensemble& ensemble,
                         const WideFunction& candidate, double tolerance, bool masks_shared,
                         const Expected& expected);

}  // namespace wide::detail
