#pragma once
#include "app/sweep/plan.h"
#include "app/trial/stages.h"
#include "data/reports/report.h"

namespace wide {

struct SweepSettings {
  double budget_s = 1.5;  // per contender
  uint64_t seed = 0;
  int threads = 0;
  std::vector<std::string> baselines;         // names; empty: all
  std::set<std::string> baselines_off;        // of these: not to be run
  std::map<std::string, std::string> forced;  // from --strategy
  double timeout_s = 0;                       // of a trial in a stage; 0: from budget and work
  std::string tuning_db;                      // remembers which strategy won; "": nobody does
};

/// Runs one case in this process: every strategy is compiled and checked, all of them and the
/// baselines are timed interleaved, and every one is checked again. A trial that fails is a
/// result, not an error. `stages` is told what is going on.
Case run_case(const PlannedCase& planned, const SweepSettings& settings, Stages& stages);

/// The reason of an `oom` trial; `got` says how memory ran out, or that it was not tried.
std::string out_of_memory_text(const std::string& thing, const std::string& got, int64_t needed,
                               int64_t available);

}  // namespace wide
