#include "engine/lower/tune/tuned_widening.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "engine/error.h"

namespace wide {
namespace {

/// Both tuners share the set of strategies that were far slower.
TunerOptions with_serial(TunerOptions options, bool serial) {
  options.serial = serial;
  return options;
}

std::vector<WideValue> values_of(const Ensemble& models) {
  std::vector<WideValue> values;
  for (size_t i = 0; i < models.tensors.size(); ++i)
    values.push_back({models.tensors[i], !models.shared[i]});
  return values;
}

std::string name_of(const CoverageItem& item) {
  return item.primitive.empty() ? item.strategy : item.primitive + "/" + item.strategy;
}

}  // namespace

WideEvaluation evaluation_of(const std::shared_ptr<WithGradients>& what) {
  return {[what](const Program&, int64_t n, const std::vector<WideValue>& bound,
                 const WidenOptions& options,
                 Coverage* coverage) { return what->evaluate(n, bound, options, coverage); },
          [what](const Program&, int64_t n, const std::vector<WideValue>& bound,
                 const WidenOptions& options,
                 Coverage* coverage) { return what->forward(n, bound, options, coverage); }};
}

TunedWidening::TunedWidening(WideEvaluation evaluation, std::shared_ptr<const Program> single,
                             WidenOptions options, const TunerOptions& tuner)
    : single_(std::move(single)),
      options_(std::move(options)),
      evaluation_(std::move(evaluation)),
      n_(tuner.n),
      whole_(with_serial(tuner, false)),
      serial_(with_serial(tuner, true)) {}

WideProgram TunedWidening::widen(const Ensemble& models) {
  choose(models);
  return widen_as_for(models.n, models);
}

/// Chooses strategies by evaluating outside of a recording, which would keep all attempts.
void TunedWidening::choose(const Ensemble& models) {
  if (options_.choose || taken_) return;
  const at::NoGradGuard no_grad;
  Tuner& tuner = models.n == n_ ? whole_ : serial_;
  Strategies& chosen = chosen_[models.n];
  WidenOptions options = options_;
  options.choose = [&](const ClaimedCall& claimed) {
    return chosen[{claimed.node, claimed.rule.name}] = tuner.choose(claimed);
  };
  const EvaluateWide& evaluate = evaluation_.choosing ? evaluation_.choosing : evaluation_.whole;
  evaluate(*single_, models.n, values_of(models), options, nullptr);
}

WideProgram TunedWidening::widen_as_for(int64_t n, const Ensemble& models) const {
  const at::NoGradGuard no_grad;
  WidenOptions options = options_;
  if (!options.choose)
    options.choose = [&chosen = by_call(n)](const ClaimedCall& claimed) {
      const std::vector<std::string>& able = claimed.applicable;
      const auto known = chosen.find({claimed.node, claimed.rule.name});
      const bool applies =
          known != chosen.end() && std::ranges::find(able, known->second) != able.end();
      return applies ? known->second : able.front();
    };
  return wide::widen(*single_, models.n, values_of(models), options, evaluation_.whole);
}

std::vector<TuningKey> TunedWidening::keys(const std::string& primitive) const {
  for (auto chosen = chosen_.rbegin(); chosen != chosen_.rend(); ++chosen) {
    std::vector<TuningKey> keys;
    for (const TunedChoice& choice : choices(chosen->first))
      if (choice.key.primitive == primitive) keys.push_back(choice.key);
    if (!keys.empty()) return keys;
  }
  return {};
}

const TunedWidening::Strategies& TunedWidening::by_call(int64_t n) const {
  static const Strategies none;
  const auto known = chosen_.find(n);
  return taken_ ? *taken_ : known == chosen_.end() ? none : known->second;
}

std::vector<TunedChoice> TunedWidening::choices(int64_t n) const {
  return (n == n_ ? whole_ : serial_).choices(n);
}

std::vector<std::string> differences(const Coverage& runs, const Coverage& shown) {
  std::map<int32_t, const CoverageItem*> at;  // by node
  for (const CoverageItem& item : shown.items) at.emplace(item.node, &item);
  std::vector<std::string> lines;
  for (const CoverageItem& item : runs.items) {
    const auto other = at.find(item.node);
    if (other == at.end() || name_of(*other->second) == name_of(item)) continue;
    const std::string& why = other->second->reason;
    lines.push_back(fmt::format(
        "node {}, {}: runs as {}, which does not apply to all models at once: "
        "shown as {}{}",
        item.node, item.op, name_of(item), name_of(*other->second), why.empty() ? "" : ", " + why));
  }
  return lines;
}

}  // namespace wide
