#pragma once
#include <nlohmann/json.hpp>

#include "data/reports/sweep/report.h"
#include "engine/measure/roofline.h"

namespace wide {

/// Shares of the measured peaks of the cores that a step may use; nullopt if the work or the peak
/// is unknown.
struct PeakShares {
  std::optional<double> flops;     // FLOPs by the definition: may exceed 1
  std::optional<double> computed;  // FLOPs that the kernel executes, if they differ
  std::optional<double> bytes;     // share of the bandwidth
};
/// Shares of a step that took this long on this many cores.
PeakShares shares_of(const StepWork& work, double ns, int64_t cores, const FuseReport& report);
PeakShares shares_of(const TimelineSpan& span, const TimelineCall& call, const FuseReport& report);

/// The timeline of a result in Chrome's trace format, which Perfetto and chrome://tracing show: a
/// process for each call, a thread for each lane, times from the start of the call.
nlohmann::ordered_json chrome_trace(const FuseReport& report, const FuseResult& result);

}  // namespace wide
