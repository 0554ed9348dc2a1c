#pragma once
#include <string>

#include "app/fuse/fuse.h"

namespace wide {

/// The text that `fuse` prints for one N: coverage, correctness, times.
std::string fuse_text(const FuseReport& report, const FuseResult& result, int64_t shared_nodes);
/// The curve along N, one line per N, and its summary.
std::string curve_text(const FuseReport& report);
/// The fate of each recorded node, and the plan of the lowering.
std::string coverage_text(const FuseResult& result);
/// The steps of the wide program with their cost, and the fate of each recorded node.
std::string explain_text(const FuseReport& report, const FuseResult& result);

}  // namespace wide
