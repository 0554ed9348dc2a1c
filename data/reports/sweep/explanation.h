#pragma once
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"

namespace wide {

/// A sentence for each step from one form to the next: which operators and bytes it saves, by
/// `work`, and how near to the machine's peaks it runs, by `timings` of the same forms (null: not
/// timed).
std::string explanation_of(const std::vector<FormWork>& work,
                           const std::vector<const Timing*>& timings);

}  // namespace wide
