#include "app/sweep/record.h"

#include <fmt/format.h>

#include "engine/error.h"

namespace wide {

SweepPlan store_plan(const std::string& name, const std::vector<PlannedCase>& cases,
                     const SweepSettings& settings, const Environment& environment) {
  SweepPlan plan{name, environment.command, environment, {}, {}};
  std::string forced;
  for (const auto& [primitive, strategy] : settings.forced)
    forced += (forced.empty() ? "" : ",") + primitive + "=" + strategy;
  plan.settings = {{"--budget", fmt::format("{}", settings.budget_s)},
                   {"--seed", std::to_string(settings.seed)},
                   {"--threads", std::to_string(settings.threads)},
                   {"--strategy", forced},
                   {"baselines", fmt::format("{}", fmt::join(settings.baselines, ","))}};
  for (const PlannedCase& p : cases) {
    const Case c = empty_case(p);
    plan.cases.push_back(
        {c.target, c.shape, c.dtype, c.device, c.mode, c.phase, c.n, p.strategies});
  }
  return plan;
}

SweepRecorder::SweepRecorder(Store store, const SweepPlan& plan, bool resume)
    : store_(std::move(store)), id_(resume ? store_.resume(plan) : store_.begin(plan)) {
  if (resume) done_ = store_.done(id_);
}

void SweepRecorder::attach(SweepRunner& runner) {
  runner_ = &runner;
  runner.add(*this);
  runner.resume([this](const PlannedCase& planned) -> std::optional<Case> {
    const auto it = done_.find(position(planned));
    return it == done_.end() ? std::nullopt : std::optional<Case>(it->second);
  });
}

int64_t SweepRecorder::position(const PlannedCase& planned) const {
  // Two planned cases may be equal, so it is the place that tells them apart.
  const auto position = &planned - runner_->cases().data();
  WIDE_ASSERT(position >= 0 && position < static_cast<int64_t>(runner_->cases().size()));
  return position;
}

void SweepRecorder::on_begin(const PlannedCase& planned) {
  current_ = position(planned);
  store_.begin_case(id_, current_);
}

void SweepRecorder::on_case(const Case& result) { store_.add_case(id_, current_, result); }

void SweepRecorder::on_end(const std::string& state) { store_.finish(id_, state, {}); }

}  // namespace wide
