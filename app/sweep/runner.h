#pragma once
#include <atomic>
#include <functional>
#include <optional>

#include "app/sweep/run.h"

namespace wide {

/// Is told of a sweep as it goes, on the thread that runs it. What it throws ends the sweep.
class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  virtual void on_begin(const PlannedCase&) {}
  /// What the case is at: case, prepare, baseline, time or check, of a trial where there is one.
  virtual void on_stage(const std::string& /*what*/, const std::string& /*trial*/) {}
  /// A case that was run now. Trials that the user's cancelling cut short are `cancelled`.
  virtual void on_case(const Case&) {}
  /// A case that was done before (resume).
  virtual void on_known(const Case&) {}
  /// `state`: complete or cancelled.
  virtual void on_end(const std::string& /*state*/) {}
};

/// Runs planned cases one after the other and tells its observers.
class SweepRunner {
 public:
  SweepRunner(std::vector<PlannedCase> cases, SweepSettings settings);

  /// Not owned; told in the order they were added.
  void add(SweepObserver& observer);
  /// `known` gives the finished result of a case that need not run again, or nullopt.
  void resume(std::function<std::optional<Case>(const PlannedCase&)> known);
  /// Is given every result that was run now, before anybody is told of it.
  void amend(std::function<void(Case&)> with) { amend_ = std::move(with); }
  /// Runs what is left; returns "complete", or "cancelled" when the user or `stop` ended it.
  std::string run();
  /// Ends `run` soon; from any thread.
  void stop() { stop_ = true; }

  const std::vector<PlannedCase>& cases() const { return cases_; }
  const SweepSettings& settings() const { return settings_; }
  /// Shares of all cases on `device` are of these peaks.
  void use_peaks(c10::Device device, const Peaks& peaks) {
    settings_.peaks = peaks;
    settings_.peaks_device = device;
  }
  /// The name of the one that measures.
  void use_machine(const std::string& name) { machine_ = name; }

 private:
  bool stopped() const;

  std::vector<PlannedCase> cases_;
  SweepSettings settings_;
  std::string machine_;
  std::vector<SweepObserver*> observers_;
  std::function<std::optional<Case>(const PlannedCase&)> known_;
  std::function<void(Case&)> amend_;
  std::atomic<bool> stop_{false};
};

}  // namespace wide
