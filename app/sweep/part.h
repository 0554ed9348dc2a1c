#pragma once
#include <string>
#include <vector>

#include "app/sweep/plan.h"
#include "data/store/part.h"

namespace wide {

/// Which cases of a plan a sweep has, where it is not the whole.
struct SweepPart {
  std::string text;                // "2/3"; "": all
  std::string whole;               // stands for all cases of the plan: parts of one have the same
  std::vector<int64_t> positions;  // of the part's cases among them
};

/// Stands for all of `cases`: others have others.
std::string plan_digest(const std::vector<PlannedCase>& cases);

/// Leaves the cases of `part` in `cases`, in their order: the longest of all by estimate first,
/// each goes to the part that has least so far. Throws Error where a part would be empty.
SweepPart take_part(const Part& part, double budget_s, std::vector<PlannedCase>* cases);

}  // namespace wide
