#pragma once
#include "engine/measure/baselines.h"

namespace wide {

/// The baselines of a case whose results are correct.
struct CorrectBaselines {
  std::vector<Baseline> good;      // ready to be timed
  std::vector<std::string> notes;  // on baselines that are missing or wrong
  /// Set if the loop, which is the separate models themselves, differs from the recorded program,
  /// so that no result can be trusted.
  std::string disagreement;
};

/// Runs each of `all` once and compares its results with `expected` (outputs, then updates, `[N,
/// ...]`; empty if unknown), unless the network is random. `wanted(name)` decides whether a
/// baseline is run.
CorrectBaselines correct_baselines(std::vector<Baseline> all, const Tensors& expected, bool random,
                                   double tolerance,
                                   const std::function<bool(const std::string&)>& wanted);

}  // namespace wide
