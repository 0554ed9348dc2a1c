#pragma once
#include "app/sweep_runner.h"

namespace wide {

/// Progress with the time left: rewrites its line on a terminal, plain lines elsewhere.
class Progress {
 public:
  Progress(size_t total, double estimated_s, bool quiet);
  /// Before and after a case.
  void begin(const std::string& what);
  void end();
  /// Takes the line away before other text is printed.
  void clear();

 private:
  double elapsed() const;
  size_t total_, done_ = 0;
  double estimated_s_, start_;
  bool quiet_, terminal_;
};

/// What the terminal shows of a sweep as it goes: progress, and the table of each target once all
/// of its cases are done.
class SweepPrinter : public SweepObserver {
 public:
  SweepPrinter(size_t total, double estimated_s, bool quiet);
  void on_begin(const PlannedCase& planned) override;
  void on_case(const Case& result) override;
  void on_known(const Case& result) override;
  void on_end(const std::string& state) override;

 private:
  void flush();

  Progress progress_;
  bool quiet_;
  std::vector<Case> group_;  // of one target, for its table
};

}  // namespace wide
