#pragma once
#include <optional>
#include <string>

#include "data/plot/figure.h"

namespace wide {

/// Published speedups of a target, to be drawn beside ours; nullopt if there are none.
std::optional<PublishedLine> published_line(const std::string& target);

}  // namespace wide
