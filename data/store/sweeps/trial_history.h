#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/reports/sweep/compare/compare.h"

namespace wide {

/// A trial's result in one sweep.
struct PastTrial {
  int64_t sweep = 0, case_id = 0;
  std::string name, started, git;  // of the sweep; `git` is the commit of the program
  std::string machine;             // on which its case was measured
  std::string status, verdict, best_baseline;
  double vs_best = 0, low = 0, high = 0;  // speedup and its 95 % interval; 0: there is none
  double median_ns = 0;                   // 0: it was not timed
  bool disturbed = false;
};

/// The same trial in all sweeps of the store at `path`, the oldest sweep first; on all machines if
/// the key names none.
std::vector<PastTrial> trial_history(const std::string& path, const TrialKey& key);

}  // namespace wide
