#pragma once
#include "app/sweep/runner.h"

namespace wide {

/// What the terminal shows of a sweep as it goes: progress with rate and time left, and the table
/// of each target once all of its cases are done. On a terminal the progress rewrites its line;
/// elsewhere it is a plain line a case.
class SweepPrinter : public SweepObserver {
 public:
  SweepPrinter(const std::vector<PlannedCase>& cases, double budget_s, bool quiet);
  void on_begin(const PlannedCase& planned) override;
  void on_stage(const std::string& what, const std::string& trial) override;
  void on_case(const Case& result) override;
  void on_known(const Case& result) override;
  void on_end(const std::string& state) override;

 private:
  void flush();
  void show(const std::string& doing);
  void clear();
  double left_s() const;

  std::vector<double> estimates_s_;  // of every case, in order
  double left_estimate_s_ = 0;       // of those to come
  double done_estimate_s_ = 0, done_s_ = 0;
  double start_s_, case_start_s_ = 0;
  size_t begun_ = 0, run_ = 0;
  bool quiet_, terminal_;
  std::string line_;
  std::vector<Case> group_;  // of one target, for its table
};

}  // namespace wide
