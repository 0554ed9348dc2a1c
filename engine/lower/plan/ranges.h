#pragma once
#include "engine/lower/executor.h"
#include "engine/lower/memory/result_memory.h"

namespace wide {

struct RangeOptions {
  int threads = 1;
  int asked = 0;        // this number of ranges; 0: chosen by timing
  bool split = true;    // false: all models at once
  bool measure = true;  // false: one range for each thread
  /// Where a call with one model at a time takes longer than this, only that and all at once are
  /// timed, no number between; 0: every number.
  double far_off_ns = 0;
  bool every = false;  // times every number, also those that shorter calls rule out
};

/// Lowers the program for so many ranges of models.
using MakeExecutor = std::function<std::unique_ptr<Executor>(int ranges)>;

/// The executor with the number of ranges that is fastest on `ensemble`. Timed calls write into
/// `results`, which can be used for the first call. Networks that draw random numbers are never
/// split, since that would change the order of their draws.
std::unique_ptr<Executor> choose_ranges(const Program& single, const Ensemble& ensemble,
                                        const RangeOptions& options, const MakeExecutor& lower,
                                        ResultMemory& results);

}  // namespace wide
