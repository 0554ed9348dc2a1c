#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "app/sweep/case/run.h"
#include "app/worker/case_worker.h"

namespace wide {

/// Gets the events of a running sweep: the terminal's progress, the store and the explorer are
/// observers. Called on the thread that runs the sweep; an exception thrown here ends the sweep.
/// A SweepCase is one of `SweepRunner::cases`, and may be told from others by its address.
class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  virtual void on_begin(const SweepCase&) {}
  /// The step that a case has reached: case, prepare, baseline, time or check; `trial` is the
  /// strategy or baseline that it concerns, or "".
  virtual void on_stage(const std::string& /*what*/, const std::string& /*trial*/) {}
  /// A case has been run. Trials that were cut short by Ctrl-C have status `cancelled`.
  virtual void on_case(const SweepCase&, const Case&) {}
  /// A worker died or stopped answering; `what` says which one, and what becomes of its case.
  virtual void on_lost(const std::string& /*what*/) {}
  /// A resumed sweep skips a case whose result is stored already.
  virtual void on_known(const SweepCase&, const Case&) {}
  /// `state`: complete or cancelled.
  virtual void on_end(const std::string& /*state*/) {}
};

/// Hands planned cases to workers and reports their results to observers. A single worker gets the
/// cases in their order, several get the longest by estimate first. `SweepSession` makes and runs
/// it.
class SweepRunner {
 public:
  SweepRunner(std::vector<SweepCase> cases, SweepSettings settings);

  /// Observers are not owned, and are called in the order in which they were added.
  void add(SweepObserver& observer);
  /// `known` gives the finished result of a case that need not run again, or nullopt.
  void resume(std::function<std::optional<Case>(const SweepCase&)> known);
  /// `with` may change the result of each case that was run, before observers see it.
  void amend(std::function<void(Case&)> with) { amend_ = std::move(with); }
  /// The workers of the next `run`. The default is one process on this machine.
  void use_workers(std::vector<std::unique_ptr<Worker>> workers) { workers_ = std::move(workers); }
  /// Runs the cases that have no result yet. Returns "complete", or "cancelled" when Ctrl-C or
  /// `stop` ended it. Throws Error where no worker is left, or one finds that the sweep cannot go
  /// on.
  std::string run();
  /// Ends `run` soon; from any thread.
  void stop() { stop_ = true; }

  const std::vector<SweepCase>& cases() const { return cases_; }
  /// The position in `cases` of `planned`, which must be an element of it (two may be equal).
  size_t index(const SweepCase& planned) const;
  const SweepSettings& settings() const { return settings_; }
  /// How many cases run at a time.
  size_t workers() const { return workers_.empty() ? 1 : workers_.size(); }
  /// Sets the machine's peaks: times of cases on `device` are reported as shares of them.
  void use_peaks(c10::Device device, const Peaks& peaks) {
    settings_.peaks = peaks;
    settings_.peaks_device = device;
  }
  /// Sets the name of this machine, for results of workers that name none.
  void use_machine(const std::string& name) { machine_ = name; }

 private:
  class Round;  // one call of `run`: which worker has which case
  bool stopped() const;
  std::vector<size_t> order(bool longest_first) const;

  std::vector<SweepCase> cases_;
  SweepSettings settings_;
  std::string machine_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<SweepObserver*> observers_;
  std::function<std::optional<Case>(const SweepCase&)> known_;
  std::function<void(Case&)> amend_;
  std::atomic<bool> stop_{false};
};

}  // namespace wide
