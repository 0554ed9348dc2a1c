#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/lower/tune/tune.h"
#include "engine/network.h"
#include "engine/widen/widen.h"

namespace wide {

/// Widens Program(1) for some of N models at a time, each claimed call by the strategy that
/// measures fastest on their tensors. What was chosen is kept by call, not by position: at another
/// number of models more or fewer strategies may apply to a call, or none.
class TunedWidening {
 public:
  /// `evaluate`: how `single` is evaluated wide. `tuner` says what the whole network is; its
  /// `serial` does not count.
  TunedWidening(EvaluateWide evaluate, std::shared_ptr<const Program> single, WidenOptions options,
                const TunerOptions& tuner);

  /// Program(n) of n models.
  WideProgram widen(const Ensemble& models);
  /// The same with what was chosen for `n` models at a time; with the first strategy that applies
  /// to a call where that one does not.
  WideProgram widen_as_for(int64_t n, const Ensemble& models) const;

  /// Keys of scope "network" that were looked up for `primitive`.
  std::vector<TuningKey> keys(const std::string& primitive) const;
  /// What was chosen for every call, for `n` models at a time.
  std::map<std::pair<int32_t, std::string>, std::string> by_call(int64_t n) const;
  /// What was chosen for each kind of call, for `n` models at a time.
  std::vector<TunedChoice> choices(int64_t n) const;

 private:
  using Call = std::pair<int32_t, std::string>;  // first node in Program(1), rule

  void choose(const Ensemble& models);

  std::shared_ptr<const Program> single_;
  WidenOptions options_;
  EvaluateWide evaluate_;
  int64_t n_;
  Tuner whole_, serial_;  // of all models at once, and of one range among others
  std::map<int64_t, std::map<Call, std::string>> chosen_;  // by models at a time
};

/// Where `shown` has another strategy for a call than `runs` has, in words.
std::vector<std::string> differences(const Coverage& runs, const Coverage& shown);

}  // namespace wide
