#pragma once
#include <optional>
#include <string>

#include "data/plot/figure.h"

namespace wide {

/// The speedups that WideCompiler 0.7 publishes for a target's layer, to be drawn beside ours;
/// nullopt if it publishes none.
std::optional<PublishedLine> published_line(const std::string& target);

}  // namespace wide
