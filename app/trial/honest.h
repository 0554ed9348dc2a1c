#pragma once
#include "engine/measure/baselines.h"

namespace wide {

/// The baselines of a case that can be believed.
struct HonestBaselines {
  std::vector<Baseline> good;      // ready to be timed
  std::vector<std::string> notes;  // on those that are missing or wrong
  /// Why nothing can be believed: the loop, which is the separate models themselves, does not give
  /// what the recorded program gives. Empty: it does.
  std::string disagreement;
};

/// Runs each baseline once and holds it against `expected` (outputs then updates, `[N, ...]`;
/// empty: cannot be known). `wanted` is asked before a baseline runs for the first time.
HonestBaselines honest_baselines(const Network& network, const Ensemble& ensemble, int threads,
                                 const Tensors& expected, double tolerance,
                                 const std::function<bool(const std::string&)>& wanted);

}  // namespace wide
