#pragma once
#include "app/sweep/cases.h"
#include "app/sweep/settings.h"
#include "app/trial/stages.h"

namespace wide {

/// Runs one case in this process: makes its models, runs the contest of its strategies, and stores
/// the winner in the tuning table. A trial that fails is a result, not an error. Reports progress
/// to `stages`.
Case run_case(const SweepCase& planned, const SweepSettings& settings, Stages& stages);

}  // namespace wide
