#pragma once
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"

namespace wide {

/// A sentence for each form but the first: how many operators and bytes it saves over the one
/// before, and which share of the machine's peak each reaches. `timings[i]` is that of `work[i]`;
/// null: not timed.
std::string explanation_of(const std::vector<FormWork>& work,
                           const std::vector<const Timing*>& timings);

}  // namespace wide
