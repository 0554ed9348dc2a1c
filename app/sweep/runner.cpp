#include "app/sweep/runner.h"

#include "app/cancel.h"
#include "app/worker/host.h"

namespace wide {

SweepRunner::SweepRunner(std::vector<PlannedCase> cases, SweepSettings settings)
    : cases_(std::move(cases)), settings_(std::move(settings)) {}

void SweepRunner::add(SweepObserver& observer) { observers_.push_back(&observer); }

void SweepRunner::resume(std::function<std::optional<Case>(const PlannedCase&)> known) {
  known_ = std::move(known);
}

bool SweepRunner::stopped() const { return stop_ || cancelled(); }

std::string SweepRunner::run() {
  std::string state = "complete";
  WorkerHost host(settings_);
  const WorkerHost::Watch watch{[this] { return stopped(); },
                                [this](const std::string& what, const std::string& trial) {
                                  for (SweepObserver* o : observers_) o->on_stage(what, trial);
                                }};
  try {
    for (const PlannedCase& planned : cases_) {
      if (stopped()) throw Cancelled();
      if (const auto done = known_ ? known_(planned) : std::nullopt) {
        for (SweepObserver* o : observers_) o->on_known(*done);
        continue;
      }
      for (SweepObserver* o : observers_) o->on_begin(planned);
      try {
        Case result = host.run(planned, watch);
        result.machine = machine_;
        if (amend_) amend_(result);
        for (SweepObserver* o : observers_) o->on_case(result);
      } catch (const Cancelled&) {
        Case cut = empty_case(planned);
        cut.machine = machine_;
        for (Trial& t : cut.trials) t.status = Status::cancelled;
        for (SweepObserver* o : observers_) o->on_case(cut);
        throw;
      }
    }
  } catch (const Cancelled&) {
    state = "cancelled";
  }
  for (SweepObserver* o : observers_) o->on_end(state);
  return state;
}

}  // namespace wide
