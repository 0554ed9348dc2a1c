#pragma once
#include <string>

#include "app/fuse/fuse.h"

namespace wide {

/// What `fuse` says on the terminal about one N: coverage, correctness, times.
std::string fuse_text(const FuseReport& report, const FuseResult& result, int64_t shared_nodes);
/// The curve along N, one line each, and what it says as a whole.
std::string curve_text(const FuseReport& report);
/// Where each recorded node went, and the plan of the lowering.
std::string coverage_text(const FuseResult& result);
/// The steps of the wide program with their cost, and where each recorded node went.
std::string explain_text(const FuseReport& report, const FuseResult& result);

}  // namespace wide
