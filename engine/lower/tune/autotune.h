#pragma once
#include "engine/lower/executor.h"
#include "engine/lower/memory/result_memory.h"
#include "engine/lower/tune/tuned_widening.h"

namespace wide {

/// A program that was widened and lowered in one way.
struct Attempt {
  std::shared_ptr<const TunedWidening> widening;
  std::unique_ptr<Executor> executor;
};

struct AttemptOptions {
  DecidedStrategies decided = {};
  int ranges = 0;            // of models; 0: measured
  bool every_range = false;  // RangeOptions::every
};
using MakeAttempt = std::function<Attempt(const AttemptOptions& options)>;

struct AutotuneOptions {
  double budget_s = 5;
  TuningKey key;  // of the whole program, in the tuning table
};

/// A TuningKey's config for a whole program: a hash of its text and of the strategies asked for.
std::string hash_text(const std::string& program, const std::map<std::string, std::string>& forced);

/// Mode max-autotune: starts from the choices of mode default, then times the whole program with
/// every other strategy of every kind of call, the longest calls first, and with every number of
/// ranges; keeps changes that are 2 % faster over several turns. Starts nothing new after
/// `budget_s`. The tuning table stores the result: later compilations in any mode use these
/// strategies, and those in this mode measure nothing.
Attempt autotune(const Ensemble& ensemble, const AutotuneOptions& options, const MakeAttempt& make,
                 ResultMemory& results);

}  // namespace wide
