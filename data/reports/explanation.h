#pragma once
#include <string>
#include <vector>

#include "data/reports/report.h"

namespace wide {

/// What each step up saves, a sentence each, in the quantities of `work`; what stays is said so.
std::string explanation_of(const std::vector<FormWork>& work);

}  // namespace wide
