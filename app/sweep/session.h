#pragma once
#include <mutex>

#include "app/sweep/record.h"

namespace wide {

struct SweepRequest {
  std::string name, command;
  std::vector<SweepCase> cases;
  SweepSettings settings;
  std::string db;  // the store's file, for results and tuning; "": nothing is stored
  Resume resume = Resume::no;
  /// Environments of the machines that measure, if there are others than this one; the first is
  /// shown for the sweep.
  std::vector<Environment> machines = {};
};

/// A whole sweep: environment, peaks, store, runner, time left. The command line and the explorer
/// both run sweeps through it.
class SweepSession : private SweepObserver {
 public:
  /// Captures the environment, measures the machine's peaks or takes them from the cache, and opens
  /// the store. Throws Error if the store cannot be written, or there is no sweep to resume.
  explicit SweepSession(SweepRequest request);

  /// To add observers (they are called after the store's), and to stop the sweep.
  SweepRunner& runner() { return runner_; }
  /// Runs the cases without results; returns "complete" or "cancelled".
  std::string run();

  /// The report so far; after the end with changes of the environment.
  const SweepReport& report() const { return report_; }
  int64_t stored_as() const { return recorder_ ? recorder_->id() : 0; }
  /// The kind of network file system that the store lies on, such as "NFS"; "" if it is local.
  std::string network() const { return recorder_ ? recorder_->network() : ""; }
  size_t done_before() const { return recorder_ ? recorder_->done_before() : 0; }
  /// A warning that other programs use the machine as the sweep begins; "" if none do.
  const std::string& busy() const { return busy_; }
  /// Estimated seconds for the remaining cases; from any thread.
  double left_s() const;

 private:
  void on_begin(const SweepCase& planned) override;
  void on_case(const SweepCase& planned, const Case& result) override;
  void on_known(const SweepCase& planned, const Case& result) override;
  void on_lost(const std::string& what) override;
  void on_end(const std::string& state) override { report_.state = state; }
  void note_changes();
  void add_changes(const std::vector<std::string>& changes);
  void sort_cases();

  SweepReport report_;
  Environment here_;  // this machine as these cases begin; a resumed report has that of its start
  std::string busy_;
  bool elsewhere_ = false;  // cases are measured on other machines than this
  SweepRunner runner_;
  std::optional<SweepRecorder> recorder_;

  std::vector<size_t> places_;  // by case of the report: its position in the list of cases

  mutable std::mutex mutex_;          // guards what the time left is computed from
  std::vector<double> estimates_s_;   // by position in the list of cases
  std::map<size_t, double> begun_s_;  // start times of the cases that run now
  size_t run_ = 0;                    // number of cases run, without those known from a resume
  size_t workers_ = 1;
  double left_estimate_s_ = 0, run_estimate_s_ = 0, run_s_ = 0;
};

}  // namespace wide
