#include "engine/widen/rule.h"

#include <algorithm>
#include <deque>

#include "engine/program/registry.h"
#include "engine/widen/capabilities.h"

namespace wide {

namespace {

std::deque<Rule>& own() {
  static std::deque<Rule> rules;
  return rules;
}

std::vector<const Rule*>& entered() {
  static std::vector<const Rule*> rules;
  return rules;
}

}  // namespace

const Strategy* Rule::strategy(const std::string& wanted) const {
  for (const Strategy& s : strategies)
    if (s.name == wanted) return &s;
  return nullptr;
}

/// Suggests a strategy of ATen operators if the strategy's own operators do not support the call.
Applies Rule::applies(const Strategy& s, const std::any& config, const WideCall& call) const {
  for (const std::string& op : s.operators) {
    const auto lack = lacks(op, call.inputs, s.converts);
    if (!lack) continue;
    const auto other = std::ranges::find_if(
        strategies, [](const Strategy& o) { return o.operators.empty() && !o.only_when_asked; });
    return reason(name + "/" + s.name, "call", lack->got, lack->expected,
                  other == strategies.end() ? "per_model" : other->name);
  }
  return s.applies(config, call);
}

bool add_rules(std::vector<Rule> rules, const char* file) {
  for (Rule& rule : rules) {
    rule.file = file;
    add_claimant(own().emplace_back(std::move(rule)));
  }
  return true;
}

void add_claimant(const Rule& rule) { entered().push_back(&rule); }

const std::vector<const Rule*>& claimants() {
  static const std::vector<const Rule*> sorted = [] {
    std::vector<const Rule*> rules = entered();
    std::ranges::sort(rules, [](const Rule* a, const Rule* b) { return a->name < b->name; });
    return rules;
  }();
  return sorted;
}

bool add_fold(Fold fold) { return enter(std::move(fold)); }

const std::vector<Fold>& folds() { return registry<Fold>(); }

}  // namespace wide
