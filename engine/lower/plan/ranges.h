#pragma once
#include "engine/lower/executor.h"

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
  /// Whether one range is tried too where there are several threads, which its operators then use.
  bool all_at_once = true;
  double longest_s = 0;  // no longer ranges are tried that would take more than this; 0: no limit
  /// Whether ranges of several models may be as long as these; empty: any.
  std::function<bool(const Executor&)> fits = {};
};

/// Lowers the program for so many ranges of models.
using MakeExecutor = std::function<std::unique_ptr<Executor>(int ranges)>;

/// What makes one call of an executor, to be timed.
using CallOf = std::function<std::function<void()>(Executor& executor)>;

/// The executor of `n` models with the number of ranges that is fastest. Networks that draw random
/// numbers are never split, since that would change the order of their draws.
std::unique_ptr<Executor> choose_ranges(const Program& single, int64_t n,
                                        const RangeOptions& options, const MakeExecutor& lower,
                                        const CallOf& call_of);

}  // namespace wide
