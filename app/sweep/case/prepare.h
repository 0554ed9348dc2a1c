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
  /// Of a network whose samples have nothing to do with each other: Program(1) of one sample, from
  /// which the expected results are computed sample by sample.
  std::optional<Program> one_sample;
  std::optional<Program> optimised;     // Program(1) of the form that people write by hand,
  std::vector<Baseline> own_baselines;  // which is a baseline
  bool fits = true;      // false: nothing of the case is tried, and its result says why
  bool has_loop = true;  // false: its separate models are not run, and its result says why
};

/// Records the network of a case and makes the tensors of its N models. Trials and baselines that
/// would take too much time or memory by estimate are marked in `result`. `prepared` is filled as
/// far as it goes: throws Error where the case does not fit, or its forms differ.
void prepare_case(const PlannedCase& planned, const SweepSettings& settings, Stages& stages,
                  PreparedCase* prepared, Case* result);

/// What went wrong outside of any trial went wrong for all.
void end_all(const Outcome& outcome, Case* result);

}  // namespace wide
