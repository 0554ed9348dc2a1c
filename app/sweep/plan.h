#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/preset.h"
#include "data/reports/sweep/report.h"
#include "engine/compile.h"
#include "engine/widen/target.h"

namespace wide {

/// What the command line says on top of a preset.
struct SweepChoices {
  std::vector<std::string> targets, axes, strategies, devices, dtypes, modes, phases;
  std::string n;
};

/// One case to run: a target at a shape, for N models, and the strategies to try.
struct PlannedCase {
  const Target* target = nullptr;
  Shape shape;
  int64_t n = 0;
  at::ScalarType dtype = at::kFloat;
  c10::Device device = c10::kCPU;
  Mode mode = Mode::default_;
  std::string phase = "forward";
  std::vector<std::string> strategies;
  std::string machine = {};  // the only one that may measure it, by `machine_name`; "": any
};

/// The result of a case before it has run: what it is, and its trials by name.
Case empty_case(const PlannedCase& planned);
/// Whether `result` is of this case: the same target, N, shape, dtype, device, mode and phase.
bool is_result_of(const Case& result, const PlannedCase& planned);

/// The strategy of targets that have none of their own: what the engine chooses for each part.
inline constexpr const char* kChosen = "wide";

/// Everything that can be asked of a target: its own strategies, or of a composition what the
/// engine chooses and what it forces on parts; then those the engine gives to all.
std::vector<std::string> strategy_names(const Target& target);

/// Cases in the order of targets, shapes, then N. Throws Error for unknown names and axes.
std::vector<PlannedCase> plan_sweep(const Preset& preset, const SweepChoices& choices);

/// What has to be forced so that a trial of `strategy` is what it says.
WidenOptions widen_options(const Target& target, const std::string& strategy,
                           const std::map<std::string, std::string>& forced);

/// Trials of a plan, baselines included, and a rough time for them.
int64_t count_trials(const std::vector<PlannedCase>& cases);
/// A rough time of one call of a case for all its models.
double estimate_call_s(const PlannedCase& planned);
double estimate_seconds(const std::vector<PlannedCase>& cases, double budget_s);

}  // namespace wide
