#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "app/sweep/case/run.h"
#include "app/worker/case_worker.h"

namespace wide {

/// Is told of a sweep as it goes, on the thread that runs it. What it throws ends the sweep. The
/// planned cases are those of the runner: their addresses say which one it is.
class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  virtual void on_begin(const PlannedCase&) {}
  /// What a case is at: case, prepare, baseline, time or check, of a trial where there is one.
  virtual void on_stage(const std::string& /*what*/, const std::string& /*trial*/) {}
  /// A case that was run now. Trials that the user's cancelling cut short are `cancelled`.
  virtual void on_case(const PlannedCase&, const Case&) {}
  /// A worker that nothing will come from any more, in words.
  virtual void on_lost(const std::string& /*what*/) {}
  /// A case that was done before (resume).
  virtual void on_known(const PlannedCase&, const Case&) {}
  /// `state`: complete or cancelled.
  virtual void on_end(const std::string& /*state*/) {}
};

/// Hands planned cases to its workers and tells its observers: to a single worker in their order,
/// to several the longest by estimate first.
class SweepRunner {
 public:
  SweepRunner(std::vector<PlannedCase> cases, SweepSettings settings);

  /// Not owned; told in the order they were added.
  void add(SweepObserver& observer);
  /// `known` gives the finished result of a case that need not run again, or nullopt.
  void resume(std::function<std::optional<Case>(const PlannedCase&)> known);
  /// Is given every result that was run now, before anybody is told of it.
  void amend(std::function<void(Case&)> with) { amend_ = std::move(with); }
  /// Who runs the cases of the next `run`; without this a process of this machine.
  void use_workers(std::vector<std::unique_ptr<Worker>> workers) { workers_ = std::move(workers); }
  /// Runs what is left; returns "complete", or "cancelled" when the user or `stop` ended it. Throws
  /// Error where no worker is left, or one finds that the sweep cannot go on.
  std::string run();
  /// Ends `run` soon; from any thread.
  void stop() { stop_ = true; }

  const std::vector<PlannedCase>& cases() const { return cases_; }
  /// Which of `cases` it is. Two may be equal, so it is the address that tells them apart.
  size_t index(const PlannedCase& planned) const;
  const SweepSettings& settings() const { return settings_; }
  /// How many cases run at a time.
  size_t workers() const { return workers_.empty() ? 1 : workers_.size(); }
  /// Shares of all cases on `device` are of these peaks.
  void use_peaks(c10::Device device, const Peaks& peaks) {
    settings_.peaks = peaks;
    settings_.peaks_device = device;
  }
  /// The name of the machine of workers that do not say theirs.
  void use_machine(const std::string& name) { machine_ = name; }

 private:
  class Round;
  bool stopped() const;
  std::vector<size_t> order(bool longest_first) const;

  std::vector<PlannedCase> cases_;
  SweepSettings settings_;
  std::string machine_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<SweepObserver*> observers_;
  std::function<std::optional<Case>(const PlannedCase&)> known_;
  std::function<void(Case&)> amend_;
  std::atomic<bool> stop_{false};
};

}  // namespace wide
