#pragma once
#include <optional>
#include <string>

#include "app/train/prepare.h"
#include "engine/measure/measure.h"

namespace wide {

/// What training the models of a run one by one would have taken.
struct SeparateRuns {
  Interval seconds;  // 95 %
  std::string how;   // "one after the other", or how many at a time
};

/// Times single steps of separate models with the weights of `weights`: one model on all threads,
/// and as many models as threads on one thread each; the faster way counts. `model_steps`: how many
/// steps the models have made, all together. Takes at most `budget_s`, but for the step in which
/// that ends. Nothing where the models cannot be run separately, the budget was too small, it was
/// cancelled, or the interval is wider than a factor of 1.5.
std::optional<SeparateRuns> estimate_separate_runs(const Prepared& run,
                                                   const std::map<std::string, Tensor>& weights,
                                                   int64_t model_steps, double budget_s);

}  // namespace wide
