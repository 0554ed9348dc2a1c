#pragma once
#include <optional>
#include <string>

#include "app/train/prepare.h"
#include "engine/measure/measure.h"

namespace wide {

/// An estimate of the time that training the models of a run separately would have taken.
struct SeparateRuns {
  Interval seconds;  // 95 %
  std::string how;   // "one after the other", or how many at a time
};

/// Times single steps of separate models that have `weights`, in two ways: one model on all
/// threads, and one model on each thread. The faster way counts. `model_steps`: steps that all
/// models have made together. Takes at most `budget_s`, except that a step under way is finished.
/// Returns nothing if the models cannot be run separately, the budget is too small, the user
/// cancelled, or the interval is wider than a factor of 1.5.
std::optional<SeparateRuns> estimate_separate_runs(const Prepared& run,
                                                   const std::map<std::string, Tensor>& weights,
                                                   int64_t model_steps, double budget_s);

}  // namespace wide
