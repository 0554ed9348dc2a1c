#include "app/sweep_runner.h"

#include "app/cancel.h"

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
  Stages silent;
  try {
    for (const PlannedCase& planned : cases_) {
      if (stopped()) throw Cancelled();
      if (const auto done = known_ ? known_(planned) : std::nullopt) {
        for (SweepObserver* o : observers_) o->on_known(*done);
        continue;
      }
      for (SweepObserver* o : observers_) o->on_begin(planned);
      const Case result = run_case(planned, settings_, silent);
      for (SweepObserver* o : observers_) o->on_case(result);
    }
  } catch (const Cancelled&) {
    state = "cancelled";
  }
  for (SweepObserver* o : observers_) o->on_end(state);
  return state;
}

}  // namespace wide
