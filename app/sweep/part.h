#pragma once
#include <string>
#include <vector>

#include "app/sweep/plan.h"
#include "data/store/sweeps/part.h"

namespace wide {

/// Which cases of a plan a sweep has, where it is not the whole.
struct SweepPart {
  std::string text;                // "2/3"; "": all
  std::string whole;               // stands for all cases of the plan: parts of one have the same
  std::vector<int64_t> positions;  // of the part's cases among them
};

/// Stands for all of `cases`: others have others.
std::string plan_digest(const std::vector<PlannedCase>& cases);

/// All of `cases` on each of `machines`, machine after machine in the order of their names.
std::vector<PlannedCase> on_each_machine(const std::vector<PlannedCase>& cases,
                                         std::vector<std::string> machines);

/// Which cases each of `count` machines has: the longest by estimate first, each goes to the one
/// that has least so far.
std::vector<std::vector<size_t>> shared_out(const std::vector<PlannedCase>& cases, int64_t count,
                                            double budget_s);

/// Leaves the cases of `part` in `cases`, in their order. Throws Error where a part would be empty.
SweepPart take_part(const Part& part, double budget_s, std::vector<PlannedCase>* cases);

}  // namespace wide
