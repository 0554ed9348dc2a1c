#pragma once
#include <optional>

#include "data/plot/figure.h"
#include "data/reports/sweep/report.h"

namespace wide {

/// The speedups that WideCompiler publishes for a case's target (presets/published.csv), to be
/// drawn beside ours; nullopt if it publishes none, which are of forward calls in float32.
std::optional<PublishedLine> published_line(const Case& c);

}  // namespace wide
