#pragma once
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "data/reports/sweep/compare/compare.h"

namespace wide {

/// A trial of one sweep beside the same trial of each sweep that is compared with it.
struct ComparedLine {
  TrialKey key;
  std::vector<std::optional<ComparedTrial>> changes;  // nullopt: not correct and timed in both
  std::vector<std::optional<StatusChange>> statuses;  // nullopt: the same status in both
  /// The least `change.value` of `changes`; 0 if a status changed.
  double worst = std::numeric_limits<double>::infinity();

  /// Whether it is FASTER, SLOWER or has another status in any of the sweeps.
  bool changed() const;
};

/// Sorted: changed statuses first, then the largest slowdowns.
std::vector<ComparedLine> compared_lines(const std::vector<Comparison>& all);

/// "ok to incorrect", as `workbench compare` prints it; "none" for a missing trial.
std::string status_change_text(const StatusChange& change);
/// Why a trial is UNCLEAR; "" for any other.
std::string unclear_text(const ComparedTrial& trial);

}  // namespace wide
