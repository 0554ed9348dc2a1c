#pragma once
#include <string>
#include <vector>

#include "data/reports/run.h"

namespace wide {

/// Learning curves of a run as HTML, each under a heading: the training loss and every metric of
/// the validation rows, a line for each model along the steps. Colours tell apart the
/// configurations by `by` (as in `by_config`), or the models where there is one configuration of
/// few models.
std::string learning_curves(const RunReport& run, const std::vector<std::string>& by);

}  // namespace wide
