#pragma once
#include "app/sweep/case/run.h"
#include "app/trial/contest.h"

namespace wide {

/// A case that is ready for its contest.
struct PreparedCase {
  Network network;  // of the case's phase
  Program single;   // Program(1) of it
  Ensemble ensemble;
  MemoryNeed memory;
  /// For a network whose samples are independent: Program(1) of one sample, by which expected
  /// results are computed sample by sample.
  std::optional<Program> one_sample;
  std::optional<Program> optimised;     // Program(1) of the hand-optimised form, if there is one
  std::vector<Baseline> own_baselines;  // that form as a baseline
  bool fits = true;                     // false: nothing of the case is run; its result says why
  bool has_loop = true;                 // false: separate models are not run; the result says why
};

/// Records the network of a case and makes the tensors of its N models. Marks in `result` the
/// trials and baselines that would take too much time or memory by estimate. Throws Error if the
/// case does not fit or its forms differ; `prepared` then holds what was made before.
void prepare_case(const SweepCase& planned, const SweepSettings& settings, Stages& stages,
                  PreparedCase* prepared, Case* result);

/// Gives all trials this outcome, when something failed that concerns all of them.
void end_all(const Outcome& outcome, Case* result);

}  // namespace wide
