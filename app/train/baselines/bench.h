#pragma once
#include "app/train/prepare.h"
#include "data/reports/sweep/report.h"

namespace wide {

/// One training step of all models beside the ways people have without this program.
struct BenchResult {
  std::vector<Timing> timings;     // loop, threads, vmap, wide
  double first_call_ns = 0;        // of the wide step, recording and planning included
  std::vector<std::string> notes;  // on baselines that are missing
};

/// Times a step on the first batch, interleaved. Nothing is trained: every contender has weights of
/// its own. `budget_s` for each.
BenchResult bench(const Prepared& run, const Start& start, Trainer& trainer, double budget_s);

}  // namespace wide
