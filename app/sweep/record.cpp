#include "app/sweep/record.h"

#include "app/options.h"
#include "app/sweep/user_network.h"
#include "data/text.h"
#include "engine/error.h"

namespace wide {

StoredCases cases_to_store(const std::string& name, const std::vector<SweepCase>& cases,
                           const SweepSettings& settings, const Environment& environment) {
  StoredCases stored{name, environment.command, environment, stored_settings(settings), {}};
  stored.positions = settings.part.positions;
  if (!settings.part.text.empty()) stored.settings[kPartSetting] = settings.part.text;
  if (settings.each_machine) stored.settings[kEachSetting] = "on";
  if (!settings.part.whole.empty()) stored.settings[kWholeSetting] = settings.part.whole;
  for (const SweepCase& p : cases) {
    const Case c = empty_case(p);
    stored.cases.push_back(
        {c.target, c.shape, c.dtype, c.device, c.mode, c.phase, c.n, p.strategies, p.machine});
  }
  return stored;
}

std::vector<SweepCase> cases_again(const StoredCases& stored, SweepSettings* settings) {
  read_settings(stored.settings, settings);
  for (const PresetNetwork& network : settings->networks) user_target(network);
  const auto part = [&](const char* name) {
    const auto it = stored.settings.find(name);
    return it == stored.settings.end() ? std::string() : it->second;
  };
  settings->each_machine = stored.settings.count(kEachSetting) > 0;
  settings->part = {part(kPartSetting), part(kWholeSetting), stored.positions};
  std::vector<SweepCase> cases;
  for (const CaseKey& c : stored.cases) {
    SweepCase planned;
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

SweepRecorder::SweepRecorder(Store store, const StoredCases& stored, Resume resume)
    : store_(std::move(store)),
      id_(resume == Resume::no ? store_.begin(stored)
                               : store_.resume(stored, resume == Resume::disturbed)) {
  if (resume != Resume::no) done_ = store_.done(id_);
}

SweepRecorder::~SweepRecorder() {
  if (ended_) return;
  try {
    store_.finish(id_, "interrupted", {});
  } catch (const std::exception&) {
    return;  // without this entry too the sweep counts as interrupted
  }
}

void SweepRecorder::attach(SweepRunner& runner) {
  runner_ = &runner;
  runner.add(*this);
  runner.resume([this](const SweepCase& planned) -> std::optional<Case> {
    const auto it = done_.find(position(planned));
    return it == done_.end() ? std::nullopt : std::optional<Case>(it->second);
  });
}

int64_t SweepRecorder::position(const SweepCase& planned) const {
  const size_t index = runner_->index(planned);
  const std::vector<int64_t>& positions = runner_->settings().part.positions;
  return positions.empty() ? static_cast<int64_t>(index) : positions.at(index);
}

void SweepRecorder::on_begin(const SweepCase& planned) {
  store_.begin_case(id_, position(planned));
}

void SweepRecorder::on_case(const SweepCase& planned, const Case& result) {
  store_.add_case(id_, position(planned), result);
}

void SweepRecorder::on_end(const std::string& state) {
  store_.finish(id_, state, {});
  ended_ = true;
}

}  // namespace wide
