#pragma once
#include "app/train/prepare.h"
#include "app/train/run/state.h"
#include "data/reports/run/run.h"

namespace wide {

/// Facts for a run's report that are not part of its state.
struct RunFacts {
  std::string name, command, state = "running";  // complete, interrupted
  std::string dir;                               // "": nothing was saved
  std::string started;
  Environment environment;
  std::vector<Timing> results;  // of --bench
  double first_call_ns = 0;     // of the first step; 0: none was made
  bool trained_here = true;     // false: merged from parts, so memory and recordings are unknown
  TrainerMemory memory;         // state_bytes before the first step, the rest after the last
  int64_t recordings = 0;       // programs that were recorded for steps and evaluations
  std::map<std::string, double> ensemble, ensemble_test;  // by metric, with the best weights
  double loop_seconds = 0;  // that separate runs would have taken; 0: not known
  std::vector<std::string> notes;
};

RunReport run_report(const Prepared& run, const TrainState& state, const RunFacts& facts);
/// The report of all models before the first step, of which `run` trains a part.
RunReport report_of_all(const Prepared& run, const RunFacts& facts);

/// Rows that models learn from; with folds those of all folds together.
int64_t learned_rows(const Prepared& run);

/// The first line of a run: models, data, switched calls, and defaults that were used.
std::string first_line(const Prepared& run, const std::string& start);

}  // namespace wide
