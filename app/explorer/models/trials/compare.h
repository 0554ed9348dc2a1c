#pragma once
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "data/reports/sweep/compare.h"

namespace wide {

/// A trial with what became of it in each of the sweeps that are compared with one; null where it
/// is not, or was not timed in both.
struct ComparedLine {
  TrialKey key;
  std::vector<std::optional<ComparedTrial>> changes;
  std::vector<std::optional<StatusChange>> statuses;
  double worst = std::numeric_limits<double>::infinity();

  /// In any of the sweeps: FASTER, SLOWER, or another status.
  bool changed() const;
};

/// Other statuses first, then the slowest change.
std::vector<ComparedLine> compared_lines(const std::vector<Comparison>& all);

/// "ok to incorrect", as the command has it; "none" where there is no such trial.
std::string status_change_text(const StatusChange& change);
/// Why nothing can be said of an UNCLEAR trial; "" for any other.
std::string unclear_text(const ComparedTrial& trial);

}  // namespace wide
