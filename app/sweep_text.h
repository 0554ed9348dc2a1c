#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/report.h"

namespace wide {

/// The trials of one target: N, strategy, time, speedups, error, verdict; then its crossovers.
std::string target_text(const std::vector<Case>& cases);

/// One line per target, and what is wrong. Fits a screen.
std::string summary_text(const SweepReport& report);

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

/// "3 min 20 s".
std::string duration_text(double seconds);

}  // namespace wide
