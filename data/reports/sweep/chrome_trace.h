#pragma once
#include <nlohmann/json.hpp>

#include "data/reports/sweep/report.h"
#include "engine/measure/roofline.h"

namespace wide {

/// Shares of what the cores that a step may use can do at most, by the machine's measured peaks;
/// nullopt where the work or the peak is not known.
struct PeakShares {
  std::optional<double> flops;     // by the definition: may pass 1
  std::optional<double> computed;  // what the kernel computes; where it is another number
  std::optional<double> bytes;     // of the bandwidth
};
/// Of a step that took so long on so many cores.
PeakShares shares_of(const StepWork& work, double ns, int64_t cores, const FuseReport& report);
PeakShares shares_of(const TimelineSpan& span, const TimelineCall& call, const FuseReport& report);

/// The timeline of a result in Chrome's trace format, which Perfetto and chrome://tracing show: a
/// process for each call, a thread for each lane, times from the begin of the call.
nlohmann::ordered_json chrome_trace(const FuseReport& report, const FuseResult& result);

}  // namespace wide
