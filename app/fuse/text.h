#pragma once
#include <string>

#include "app/fuse/fuse.h"

namespace wide {

/// The text that `fuse` prints for one N: coverage, correctness, times.
std::string fuse_text(const FuseReport& report, const FuseResult& result, int64_t shared_nodes);
/// The curve along N, one line per N, and its summary.
std::string curve_text(const FuseReport& report);
/// How each recorded node was made wide, and the plan that it became (`engine/lower/plan`).
std::string coverage_text(const FuseResult& result);
/// The steps of the wide program with their cost, and how each recorded node was made wide.
std::string explain_text(const FuseReport& report, const FuseResult& result);

}  // namespace wide
