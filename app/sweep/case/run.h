#pragma once
#include "app/sweep/plan.h"
#include "app/sweep/settings.h"
#include "app/trial/stages.h"

namespace wide {

/// Runs one case in this process: makes its models, holds the contest of its strategies, and lets
/// the tuning table know who won. A trial that fails is a result, not an error. `stages` is told
/// what is going on.
Case run_case(const PlannedCase& planned, const SweepSettings& settings, Stages& stages);

}  // namespace wide
