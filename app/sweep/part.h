#pragma once
#include <string>
#include <vector>

#include "app/sweep/cases.h"
#include "data/store/sweeps/part.h"

namespace wide {

/// The share of a sweep's cases that one machine measures (`--part`).
struct SweepPart {
  std::string text;                // "2/3"; "": all
  std::string whole;               // digest of the cases of the whole sweep, equal in all parts
  std::vector<int64_t> positions;  // positions of this part's cases in the whole sweep
};

/// A digest of `cases`, by which parts of one sweep recognise each other.
std::string cases_digest(const std::vector<SweepCase>& cases);

/// All of `cases` on each of `machines`, machine after machine in the order of their names.
std::vector<SweepCase> on_each_machine(const std::vector<SweepCase>& cases,
                                       std::vector<std::string> machines);

/// Distributes cases over `count` machines, as positions: the longest first by estimate, each to
/// the machine with the least work so far.
std::vector<std::vector<size_t>> shared_out(const std::vector<SweepCase>& cases, int64_t count,
                                            double budget_s);

/// Removes all cases that are not in `part`, and keeps the order. Throws Error if a part would be
/// empty.
SweepPart take_part(const Part& part, double budget_s, std::vector<SweepCase>* cases);

}  // namespace wide
