#pragma once
#include <functional>
#include <memory>

#include "app/worker/process.h"

namespace wide {

/// The sweep's side of the worker: gives it case after case, watches over it, and when it crashes,
/// hangs or runs out of memory, blames the trial that was running and runs the case again in a
/// fresh worker without that trial.
class WorkerHost {
 public:
  explicit WorkerHost(SweepSettings settings);
  ~WorkerHost();

  struct Watch {
    std::function<bool()> stopped;
    std::function<void(const std::string& what, const std::string& name)> stage;  // as of Stages
  };
  /// The result of a case, whatever happens to the worker. Throws Cancelled soon after
  /// `watch.stopped` becomes true, whatever the worker does.
  Case run(const SweepCase& planned, const Watch& watch);

  /// How many worker processes were started so far.
  int started() const { return started_; }

 private:
  struct Attempt;
  Attempt attempt(const SweepCase& planned, const SweepSettings& settings, const Watch& watch);
  void listen(Attempt& attempt, double limit_s, const Watch& watch);
  bool take(Attempt& attempt, const std::string& line, const Watch& watch);
  void blame(Attempt& attempt) const;
  void describe_end(Attempt& attempt);

  SweepSettings settings_;
  std::unique_ptr<WorkerProcess> worker_;
  int started_ = 0;
};

/// The peak rates of `device`, measured by a worker: the sweep's own process makes no context on a
/// GPU, which would take memory. `tf32`: of float32 products that may use TF32. Throws Error with
/// exit code 5 if the worker fails.
Peaks peaks_by_worker(c10::Device device, int threads, bool tf32);

/// The most seconds that a trial may take in a stage before it counts as hanging: --timeout, or a
/// minute plus a generous estimate from its budget and work.
double trial_limit_s(const SweepCase& planned, const SweepSettings& settings);

}  // namespace wide
