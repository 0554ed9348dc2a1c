#pragma once
#include "app/sweep/part.h"
#include "app/trial/stages.h"
#include "engine/measure/peaks.h"

namespace wide {

struct SweepSettings {
  double budget_s = 1.5;  // per contender
  uint64_t seed = 0;
  int threads = 0;
  bool all_cores = false;                     // nobody asked for a number of threads
  std::vector<std::string> baselines;         // names; empty: all
  std::set<std::string> baselines_off;        // of these: not to be run
  std::map<std::string, std::string> forced;  // from --strategy
  int min_samples = 10;                       // of a timing, whatever the budget
  std::string peer;                           // a Python with torch, for torch.compile; "": none
  std::string peer_lacks;                     // why it cannot compile; "": it can
  double timeout_s = 0;                       // of a trial in a stage; 0: from budget and work
  SweepPart part;                             // that the cases are of a plan
  bool each_machine = false;                  // measures all cases
  bool tf32 = false;                          // on a GPU: float32 factors may be rounded
  std::string tuning_db;                      // remembers which strategy won; "": nobody does
  std::optional<Peaks> peaks;                 // those that the report states, of `peaks_device`
  c10::Device peaks_device = c10::kCPU;
};

/// Runs one case in this process: makes its models, holds the contest of its strategies, and lets
/// the tuning table know who won. A trial that fails is a result, not an error. `stages` is told
/// what is going on.
Case run_case(const PlannedCase& planned, const SweepSettings& settings, Stages& stages);

}  // namespace wide
