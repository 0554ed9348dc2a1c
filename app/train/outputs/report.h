#pragma once
#include "app/train/prepare.h"
#include "app/train/run/state.h"
#include "data/reports/run/run.h"

namespace wide {

/// Adds `run` and its state to `facts`, which holds what follows from neither: who began it and
/// where, results, memory, notes.
RunReport run_report(const Prepared& run, const TrainState& state, RunReport facts);
/// The report of all models before the first step, of which `run` trains a part.
RunReport report_of_all(const Prepared& run, const RunReport& facts);

/// Rows that models learn from; with folds those of all folds together.
int64_t learned_rows(const Prepared& run);

/// The first line of a run: models, data, switched calls, and defaults that were used.
std::string first_line(const Prepared& run, const std::string& start);

}  // namespace wide
