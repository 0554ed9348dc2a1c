#pragma once
#include "engine/lower/executor.h"

namespace wide {

struct RangeOptions {
  int threads = 1;
  int asked = 0;        // this number of ranges; 0: chosen by timing
  bool split = true;    // false: all models at once
  bool measure = true;  // false: one range for each thread, or more if those do not fit
  /// If a call with one model at a time takes longer than this, only that and all models at once
  /// are timed; 0: no such limit.
  double far_off_ns = 0;
  bool every = false;  // times also numbers that shorter calls would rule out
  /// Whether one range, whose operators use all threads, is tried too.
  bool all_at_once = true;
  /// Whether ranges that seem faster are timed again in turns with the fastest until then.
  bool in_turns = false;
  double longest_s = 0;  // longer ranges that would take more than this are not tried; 0: no limit
  /// How many times the memory that is allowed a call with these ranges needs; up to 1 they fit.
  /// Asked of the shortest ranges first, which may be used in any case. Empty: all fit.
  std::function<double(Executor&)> share_of_memory = {};
};

/// Lowers the program for this many ranges of models.
using MakeExecutor = std::function<std::unique_ptr<Executor>(int ranges)>;

/// Makes a function that calls an executor once, for timing.
using CallOf = std::function<std::function<void()>(Executor& executor)>;

/// The executor of `n` models with the number of ranges that is fastest. Ranges that need
/// more memory than allowed, up to twice as much, count as slower by that factor.
/// Unmeasured, the longest ranges that fit are taken. Networks that draw random numbers are never
/// split, since that would change the order of their draws.
std::unique_ptr<Executor> choose_ranges(const Program& single, int64_t n,
                                        const RangeOptions& options, const MakeExecutor& lower,
                                        const CallOf& call_of);

}  // namespace wide
