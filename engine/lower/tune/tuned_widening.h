#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/lower/tune/tune.h"
#include "engine/network.h"
#include "engine/widen/gradients.h"

namespace wide {

/// How Program(1) is evaluated for N models.
struct WideEvaluation {
  EvaluateWide whole = evaluate_wide;
  EvaluateWide choosing = {};  // as much of it as strategies are chosen in; empty: the whole
};
WideEvaluation evaluation_of(const std::shared_ptr<WithGradients>& what);

/// Widens Program(1) for some of N models at a time, each claimed call by the strategy that
/// measures fastest on their tensors. What was chosen is kept by call, not by position: at another
/// number of models more or fewer strategies may apply to a call, or none.
class TunedWidening {
 public:
  using Call = std::pair<int32_t, std::string>;  // first node in Program(1), rule
  using Strategies = std::map<Call, std::string>;

  /// `tuner` says what the whole network is; its `serial` does not count.
  TunedWidening(WideEvaluation evaluation, std::shared_ptr<const Program> single,
                WidenOptions options, const TunerOptions& tuner);

  /// Nothing is chosen from here on: these strategies, whatever the number of models.
  void take(Strategies strategies) { taken_ = std::move(strategies); }
  /// Chooses strategies for so many models at a time.
  void choose(const Ensemble& models);
  /// Program(n) of n models, for which strategies are chosen first.
  WideProgram widen(const Ensemble& models);
  /// The same with what was chosen for `n` models at a time; with the first strategy that applies
  /// to a call where that one does not.
  WideProgram widen_as_for(int64_t n, const Ensemble& models) const;

  /// Keys of scope "network" that were looked up for `primitive`.
  std::vector<TuningKey> keys(const std::string& primitive) const;
  /// What was chosen for every call, for `n` models at a time.
  const Strategies& by_call(int64_t n) const;
  /// What was chosen for each kind of call, for `n` models at a time.
  std::vector<TunedChoice> choices(int64_t n) const;

 private:
  std::shared_ptr<const Program> single_;
  WidenOptions options_;
  WideEvaluation evaluation_;
  int64_t n_;
  Tuner whole_, serial_;                  // of all models at once, and of one range among others
  std::map<int64_t, Strategies> chosen_;  // by models at a time
  std::optional<Strategies> taken_;
};

/// Where `shown` has another strategy for a call than `runs` has, in words.
std::vector<std::string> differences(const Coverage& runs, const Coverage& shown);

}  // namespace wide
