#pragma once
#include "app/train/prepare.h"
#include "data/reports/sweep/report.h"

namespace wide {

/// Times of one training step of all models: the wide program's, and those of the baselines.
struct BenchResult {
  std::vector<Timing> timings;     // loop, threads, vmap, wide
  double first_call_ns = 0;        // of the wide step, recording and planning included
  std::vector<std::string> notes;  // on baselines that are missing
};

/// Times a step on the first batch, the contenders interleaved. Every contender has its own copy of
/// the weights, so nothing is trained. `budget_s`: seconds for each contender.
BenchResult bench(const Prepared& run, const Start& start, Trainer& trainer, double budget_s);

}  // namespace wide
