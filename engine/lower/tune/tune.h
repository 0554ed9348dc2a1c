#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/lower/plan/plan.h"
#include "engine/lower/tune/tuning.h"
#include "engine/widen/widen.h"

namespace wide {

/// Strategies by the text of a call's key of scope "network".
using DecidedStrategies = std::map<std::string, std::string>;

/// A kind of call that a Tuner chose a strategy for.
struct TunedChoice {
  TuningKey key;  // of scope "network"
  std::string strategy;
  std::vector<std::string> applicable;
  double median_ns = 0;  // of this call alone; 0: unknown
};

struct TunerOptions {
  bool serial = false;     // calls are those of one range, which runs on one thread
  int threads = 1;         // of the whole network
  int64_t n = 0;           // models of the whole network
  bool measure = true;     // false: estimate what the table does not know
  bool gradients = false;  // calls are differentiated: forward and backward count together
  /// Strategies that lost by far on a long call; not tried on such a call of more models.
  std::shared_ptr<std::set<std::string>> far_off = std::make_shared<std::set<std::string>>();
  DecidedStrategies decided = {};  // take precedence over the table and over measuring
};

/// Chooses strategies: the decided one, else the table's winner for whole networks like this one,
/// else the table's winner for such a call alone, else by timing the call now (recorded, optimised
/// and planned, on its own tensors) and storing the winner; without `measure` by an estimate.
class Tuner {
 public:
  explicit Tuner(TunerOptions options) : options_(options) {}
  std::string choose(const ClaimedCall& claimed);
  /// The strategy chosen for each kind of call of `n` models.
  std::vector<TunedChoice> choices(int64_t n) const;

 private:
  TuningEntry choose_among(const ClaimedCall& claimed, const TuningKey& network);
  TuningKey key(const ClaimedCall& claimed, const std::string& scope) const;
  TuningEntry fastest(const ClaimedCall& claimed) const;
  std::string estimated(const ClaimedCall& claimed) const;

  TunerOptions options_;
  std::map<std::string, TuningEntry> known_;  // by key and strides, which the table ignores
  /// By models of a call, and by the text of the key of scope "network", which all numbers share.
  std::map<int64_t, std::map<std::string, TunedChoice>> seen_;
};

/// The cost of a call of `program` that takes `ns`: 10 % more if its results are not contiguous,
/// since their consumers run slower.
double with_readers_ns(const Program& program, double ns);

/// Median nanoseconds of `strategy` on `call`, planned, with parameter inputs packed beforehand,
/// plus the cost that its layout adds for the consumers of its results. A strategy that takes far
/// longer than `best_ns` is not measured more precisely.
double time_strategy(const Rule& rule, const Strategy& strategy, const std::any& config,
                     const WideCall& call, const TunerOptions& options, double best_ns = 0);

/// Nanoseconds of `strategy` on `call` from its FLOPs, bytes and number of operators.
double estimate_strategy(const Rule& rule, const Strategy& strategy, const std::any& config,
                         const WideCall& call, const TunerOptions& options);

}  // namespace wide
