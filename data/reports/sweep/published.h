#pragma once
#include <optional>
#include <string>

#include "data/plot/figure.h"

namespace wide {

/// What was published for a target elsewhere, or none.
std::optional<PublishedLine> published_line(const std::string& target);

}  // namespace wide
