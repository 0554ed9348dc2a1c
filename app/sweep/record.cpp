#include "app/sweep/record.h"

#include "app/options.h"
#include "app/sweep/user_network.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {

SweepPlan store_plan(const std::string& name, const std::vector<PlannedCase>& cases,
                     const SweepSettings& settings, const Environment& environment) {
  SweepPlan plan{name, environment.command, environment, stored_settings(settings), {}};
  plan.positions = settings.part.positions;
  if (!settings.part.text.empty()) plan.settings[kPartSetting] = settings.part.text;
  if (settings.each_machine) plan.settings[kEachSetting] = "on";
  if (!settings.part.whole.empty()) plan.settings[kWholeSetting] = settings.part.whole;
  for (const PlannedCase& p : cases) {
    const Case c = empty_case(p);
    plan.cases.push_back(
        {c.target, c.shape, c.dtype, c.device, c.mode, c.phase, c.n, p.strategies, p.machine});
  }
  return plan;
}

std::vector<PlannedCase> planned_again(const SweepPlan& plan, SweepSettings* settings) {
  read_settings(plan.settings, settings);
  for (const PresetNetwork& network : settings->networks) user_target(network);
  const auto part = [&](const char* name) {
    const auto it = plan.settings.find(name);
    return it == plan.settings.end() ? std::string() : it->second;
  };
  settings->each_machine = plan.settings.count(kEachSetting) > 0;
  settings->part = {part(kPartSetting), part(kWholeSetting), plan.positions};
  std::vector<PlannedCase> cases;
  for (const CasePlan& c : plan.cases) {
    PlannedCase planned;
    planned.target = &find_sweep_target(c.target);
    for (const std::string& axis : split(c.shape, ' ')) {
      const size_t digits = axis.find_first_of("-0123456789");
      if (digits != std::string::npos)
        planned.shape.set(axis.substr(0, digits), std::stoll(axis.substr(digits)));
    }
    planned.n = c.n;
    planned.dtype = parse_float_dtype(c.dtype);
    planned.device = parse_device(c.device);
    planned.mode = parse_mode(c.mode);
    planned.phase = c.phase;
    planned.strategies = c.strategies;
    planned.machine = c.machine;
    cases.push_back(std::move(planned));
  }
  return cases;
}

SweepRecorder::SweepRecorder(Store store, const SweepPlan& plan, Resume resume)
    : store_(std::move(store)),
      id_(resume == Resume::no ? store_.begin(plan)
                               : store_.resume(plan, resume == Resume::disturbed)) {
  if (resume != Resume::no) done_ = store_.done(id_);
}

SweepRecorder::~SweepRecorder() {
  if (ended_) return;
  try {
    store_.finish(id_, "interrupted", {});
  } catch (const std::exception&) {
    return;  // the store may have failed; the sweep counts as interrupted without this entry too
  }
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
  const size_t index = runner_->index(planned);
  const std::vector<int64_t>& positions = runner_->settings().part.positions;
  return positions.empty() ? static_cast<int64_t>(index) : positions.at(index);
}

void SweepRecorder::on_begin(const PlannedCase& planned) {
  store_.begin_case(id_, position(planned));
}

void SweepRecorder::on_case(const PlannedCase& planned, const Case& result) {
  store_.add_case(id_, position(planned), result);
}

void SweepRecorder::on_end(const std::string& state) {
  store_.finish(id_, state, {});
  ended_ = true;
}

}  // namespace wide
