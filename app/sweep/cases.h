#pragma once
#include <map>
#include <string>
#include <vector>

#include "data/preset.h"
#include "data/reports/sweep/report.h"
#include "engine/compile.h"
#include "engine/widen/target.h"

namespace wide {

/// Options of the command line that change a preset.
struct SweepChoices {
  std::vector<std::string> targets, axes, strategies, devices, dtypes, modes, phases;
  std::string n;
};

/// One case to run: a target at a shape, for N models, and the strategies to try.
struct SweepCase {
  const Target* target = nullptr;
  Shape shape;
  int64_t n = 0;
  at::ScalarType dtype = at::kFloat;
  c10::Device device = c10::kCPU;
  Mode mode = Mode::default_;
  std::string phase = "forward";
  std::vector<std::string> strategies;
  std::string machine = {};  // `machine_name` of the only machine that may measure it; "": any
};

/// The result of a case before it has run: its identity, and its trials without results.
Case empty_case(const SweepCase& planned);

/// Name of the trial in which the engine chooses a strategy for each call: for targets without
/// strategies of their own.
inline constexpr const char* kChosen = "wide";

/// All strategies that a target can be run by: its own; for a composition the engine's choice and
/// those forced on its parts; then vmap and per_model.
std::vector<std::string> strategy_names(const Target& target);

/// Cases in the order of targets, shapes, then N. Throws Error for unknown names and axes.
std::vector<SweepCase> sweep_cases(const Preset& preset, const SweepChoices& choices);

/// Removes from another sweep the cases and trials that `choices`, by which `cases` were made,
/// leave out. Where they choose no target, N or other dimension, all of its values stay.
void keep_asked(const SweepChoices& choices, const std::vector<SweepCase>& cases,
                SweepReport* other);

/// Strategies to force on the primitives inside, so that a trial uses `strategy`.
WidenOptions widen_options(const Target& target, const std::string& strategy,
                           const std::map<std::string, std::string>& forced);

/// Number of trials and baselines in a list of cases, and a rough estimate of their time.
int64_t count_trials(const std::vector<SweepCase>& cases);
/// A rough time of one call of a case for all its models.
double estimate_call_s(const SweepCase& planned);
double estimate_seconds(const std::vector<SweepCase>& cases, double budget_s);

}  // namespace wide
