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

/// Runs each of `all` once and holds it against `expected` (outputs then updates, `[N, ...]`;
/// empty: cannot be known), unless the network is random. `wanted` is asked before a baseline runs.
HonestBaselines honest_baselines(std::vector<Baseline> all, const Tensors& expected, bool random,
                                 double tolerance,
                                 const std::function<bool(const std::string&)>& wanted);

}  // namespace wide
