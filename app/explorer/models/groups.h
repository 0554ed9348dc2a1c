#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/plot/figure.h"
#include "data/reports/report.h"
#include "data/store/browse.h"

namespace wide {

/// What one plot holds: trials that differ in N, mode and strategy only.
struct Group {
  std::string target, shape, dtype, device, phase;
  std::vector<uint32_t> rows;  // of the table, baselines too
  bool operator==(const Group& other) const {
    return target == other.target && shape == other.shape && dtype == other.dtype &&
           device == other.device && phase == other.phase;
  }
  std::string text() const;  // "B16 D256 · f32 · cpu"
};
std::vector<Group> groups_of(const TrialTable& table);

/// The cases of a group, as a report has them but without samples.
std::vector<Case> cases_of(const TrialTable& table, const Group& group);

/// One target at one N: the best that is right, and what is not.
struct OverviewCell {
  int32_t row = -1;  // of the best right trial; -1: none
  double speedup = TrialRow::kNone;
  int incorrect = 0, failed = 0, unsupported = 0, right = 0;
};

struct OverviewLine {
  std::string target;
  size_t group = 0;                           // the one with the best speedup
  std::map<int64_t, OverviewCell> cells;      // by N
  std::string fastest;                        // strategy at the largest N that has a right one
  double best = TrialRow::kNone;              // its speedup there
  std::optional<int64_t> crossover;           // of that strategy, in that group
  int incorrect = 0, failed = 0, trials = 0;  // over all its groups
};

/// Every target of a sweep by N: what is fastest, where it pays, whether it is right.
struct Overview {
  std::vector<int64_t> ns;
  std::vector<OverviewLine> lines;
};
Overview overview_of(const TrialTable& table, const std::vector<Group>& groups);

}  // namespace wide
