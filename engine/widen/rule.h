#pragma once
#include "engine/widen/claim.h"
#include "engine/widen/strategy.h"

namespace wide {

/// Recorded calls and how they are computed for all models at once, like a batching rule of
/// functorch. It is the base of Target; a rule by itself is for operators that are no layer, such
/// as losses, pools and assignments, and is not listed.
struct Rule {
  std::string name;
  std::string summary;  // one line
  std::vector<Claim> claims{};
  std::vector<Strategy> strategies{};  // first: the default
  /// Which canonical inputs are parameters; missing entries are not. Values that depend only on
  /// parameters are computed once; calls with shared parameters are left to vmap.
  std::vector<bool> parameter_inputs{};
  std::vector<Pattern> patterns{};
  std::string file{};  // where it is registered

  const Strategy* strategy(const std::string& name) const;
  /// nullopt if the strategy applies to a call, else the reason.
  Applies applies(const Strategy& strategy, const std::any& config, const WideCall& call) const;
};

/// Registers at static initialisation; `file` is __FILE__. Returns true.
bool add_rules(std::vector<Rule> rules, const char* file);
#define WIDE_RULES(...) \
  [[maybe_unused]] static const bool registered_rules = ::wide::add_rules({__VA_ARGS__}, __FILE__)

/// Adds a rule that is part of a larger object, such as a Target, and is never destroyed.
void add_claimant(const Rule& rule);
/// All that claim recorded calls, sorted by name: rules, and the targets that claim.
const std::vector<const Rule*>& claimants();

/// A rewrite of two claimed calls in a row into one: `second`, and nothing else, reads the first
/// output of `first`. `rewrite` returns inputs with which `first` alone gives the result of both,
/// or nullopt if these two cannot be folded.
struct Fold {
  std::string name;           // "batchnorm into convolution"
  std::string first, second;  // names of what claims them
  std::function<std::optional<Tensors>(const std::any& first_config, const WideCall& first,
                                       const std::any& second_config, const WideCall& second)>
      rewrite;
};
/// Registers at static initialisation.
bool add_fold(Fold fold);
const std::vector<Fold>& folds();

}  // namespace wide
