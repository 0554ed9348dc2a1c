#pragma once
#include "engine/lower/executor.h"
#include "engine/lower/memory/result_memory.h"

namespace wide {

struct RangeOptions {
  int threads = 1;
  int asked = 0;        // so many; 0: chosen here
  bool split = true;    // false: all models at once
  bool measure = true;  // false: one range for each thread
  /// A call that takes longer than this with one model at a time is tried with all at once, and at
  /// no number in between; 0: at every number.
  double far_off_ns = 0;
  bool every = false;  // tries every number, whatever the short calls teach about the long ones
};

/// Lowers the program for so many ranges of models.
using MakeExecutor = std::function<std::unique_ptr<Executor>(int ranges)>;

/// The executor with the number of ranges that measures fastest on `ensemble`. What is timed writes
/// into `results`, which then serve the first call. Networks that draw random numbers are never
/// split, as the order of their draws would change with it.
std::unique_ptr<Executor> choose_ranges(const Program& single, const Ensemble& ensemble,
                                        const RangeOptions& options, const MakeExecutor& lower,
                                        ResultMemory& results);

}  // namespace wide
