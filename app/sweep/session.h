#pragma once
#include <mutex>

#include "app/sweep/record.h"

namespace wide {

struct SweepRequest {
  std::string name, command;
  std::vector<PlannedCase> cases;
  SweepSettings settings;
  std::string db;  // the store's file, for results and for who won; "": nothing is kept
  Resume resume = Resume::no;
  /// Of the machines that measure, where that is not this one alone: the first stands for all.
  std::vector<Environment> machines = {};
};

/// A sweep from the first look at the machine to the last, with all that is kept of it. The one way
/// a sweep is run: by the command line and by the explorer.
class SweepSession : private SweepObserver {
 public:
  /// Captures the environment, measures or finds the machine's peaks, and opens the store. Throws
  /// Error where that cannot be written, or the sweep to continue is none.
  explicit SweepSession(SweepRequest request);

  /// Who else is told of it, after the store; and who ends it.
  SweepRunner& runner() { return runner_; }
  /// Runs what is left; returns "complete" or "cancelled".
  std::string run();

  /// What has run so far; of a finished one also how the environment changed.
  const SweepReport& report() const { return report_; }
  int64_t stored_as() const { return recorder_ ? recorder_->id() : 0; }
  /// The network file system that the store lies on, as "NFS"; "" for any other.
  std::string network() const { return recorder_ ? recorder_->network() : ""; }
  size_t done_before() const { return recorder_ ? recorder_->done_before() : 0; }
  /// Why its times may not be worth much: others use the machine as it begins. "" where none do.
  const std::string& busy() const { return busy_; }
  /// Of all cases that are left; from any thread.
  double left_s() const;

 private:
  void on_begin(const PlannedCase& planned) override;
  void on_case(const PlannedCase& planned, const Case& result) override;
  void on_known(const PlannedCase& planned, const Case& result) override;
  void on_lost(const std::string& what) override;
  void on_end(const std::string& state) override { report_.state = state; }
  void note_changes();
  void add_changes(const std::vector<std::string>& changes);
  void sort_cases();

  SweepReport report_;
  std::string busy_;
  bool elsewhere_ = false;  // cases are measured on other machines than this
  SweepRunner runner_;
  std::optional<SweepRecorder> recorder_;

  std::vector<size_t> places_;  // of the report's cases in the plan

  mutable std::mutex mutex_;          // of the time left
  std::vector<double> estimates_s_;   // of every case, in order
  std::map<size_t, double> begun_s_;  // of cases that run now
  size_t run_ = 0;                    // cases, without those that were known
  size_t workers_ = 1;
  double left_estimate_s_ = 0, run_estimate_s_ = 0, run_s_ = 0;
};

}  // namespace wide
