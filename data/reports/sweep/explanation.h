#pragma once
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"

namespace wide {

/// What each step up saves, a sentence each, in the quantities of `work`; what stays is said so.
/// And how fast it does the rest, by the shares of the machine's peaks of `timings`, which are of
/// the same forms (null: it was not timed): all there is to say where nothing was saved.
std::string explanation_of(const std::vector<FormWork>& work,
                           const std::vector<const Timing*>& timings);

}  // namespace wide
