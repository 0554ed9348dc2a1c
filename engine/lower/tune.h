#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/lower/plan.h"
#include "engine/widen.h"

namespace wide {

/// Chooses strategies by measuring: every applicable one is recorded alone, passed through the
/// passes, planned and timed on the call's own tensors. Equal calls are measured once.
class Tuner {
 public:
  explicit Tuner(bool serial) : serial_(serial) {}
  std::string choose(const Target& target, const std::any& config, const WideCall& call,
                     const std::vector<std::string>& applicable);

 private:
  bool serial_;
  std::map<std::string, std::string> known_;
};

/// Median nanoseconds of `strategy` on `call`, planned, with parameter inputs packed beforehand.
/// One that takes more than twice `best_ns` is not measured any closer.
double time_strategy(const Target& target, const Strategy& strategy, const std::any& config,
                     const WideCall& call, bool serial, double best_ns = 0);

}  // namespace wide
