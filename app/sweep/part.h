#pragma once
#include <string>
#include <vector>

#include "app/sweep/plan.h"
#include "data/store/sweeps/part.h"

namespace wide {

/// The share of a sweep's plan (its list of cases) that one machine measures (`--part`).
struct SweepPart {
  std::string text;                // "2/3"; "": all
  std::string whole;               // digest of all cases of the plan, equal in all its parts
  std::vector<int64_t> positions;  // positions of this part's cases in the plan
};

/// A digest of `cases`.
std::string plan_digest(const std::vector<PlannedCase>& cases);

/// All of `cases` on each of `machines`, machine after machine in the order of their names.
std::vector<PlannedCase> on_each_machine(const std::vector<PlannedCase>& cases,
                                         std::vector<std::string> machines);

/// Distributes cases over `count` machines, as positions: the longest first by estimate, each to
/// the machine with the least work so far.
std::vector<std::vector<size_t>> shared_out(const std::vector<PlannedCase>& cases, int64_t count,
                                            double budget_s);

/// Removes all cases that are not in `part`, and keeps the order. Throws Error if a part would be
/// empty.
SweepPart take_part(const Part& part, double budget_s, std::vector<PlannedCase>* cases);

}  // namespace wide
