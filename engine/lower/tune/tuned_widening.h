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
  EvaluateWide choosing = {};  // the part in which strategies are chosen; empty: the whole
};
WideEvaluation evaluation_of(const std::shared_ptr<WithGradients>& what);

/// Widens Program(1) for some of N models at a time, each claimed call by the strategy that
/// measures fastest on their tensors. Choices are stored by call, as other strategies may apply to
/// it at another number of models.
class TunedWidening {
 public:
  using Call = std::pair<int32_t, std::string>;  // first node in Program(1), rule
  using Strategies = std::map<Call, std::string>;

  /// `tuner` describes the whole network; its `serial` is ignored.
  TunedWidening(WideEvaluation evaluation, std::shared_ptr<const Program> single,
                WidenOptions options, const TunerOptions& tuner);

  /// Sets the strategies for any number of models; nothing is chosen any more.
  void take(Strategies strategies) { taken_ = std::move(strategies); }
  /// Chooses strategies for this many models at a time.
  void choose(const Ensemble& models);
  /// Program(n) of n models; chooses strategies first.
  WideProgram widen(const Ensemble& models);
  /// Program(n) with the strategies chosen for `n` models at a time, or, for calls to which these
  /// do not apply, the first one that does.
  WideProgram widen_as_for(int64_t n, const Ensemble& models) const;

  /// Keys of scope "network" that were looked up for `primitive`.
  std::vector<TuningKey> keys(const std::string& primitive) const;
  /// The strategy of every call, for `n` models at a time.
  const Strategies& by_call(int64_t n) const;
  /// The choice for each kind of call, for `n` models at a time.
  std::vector<TunedChoice> choices(int64_t n) const;

 private:
  std::shared_ptr<const Program> single_;
  WidenOptions options_;
  WideEvaluation evaluation_;
  int64_t n_;
  Tuner whole_, serial_;                  // all models at once; one range of several
  std::map<int64_t, Strategies> chosen_;  // by models at a time
  std::optional<Strategies> taken_;
};

/// Texts on calls for which `shown` has another strategy than `runs`.
std::vector<std::string> differences(const Coverage& runs, const Coverage& shown);

}  // namespace wide
