#pragma once
#include "app/sweep_plan.h"
#include "data/report.h"

namespace wide {

struct SweepSettings {
  double budget_s = 1.5;  // per contender
  uint64_t seed = 0;
  int threads = 0;
  std::vector<std::string> baselines;         // names; empty: all
  std::map<std::string, std::string> forced;  // from --strategy
};

/// Runs one case: every strategy is compiled and checked, all of them and the baselines are timed
/// interleaved, and every one is checked again. A trial that fails is a result, not an error.
Case run_case(const PlannedCase& planned, const SweepSettings& settings);

}  // namespace wide
