#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/plot/lanes.h"
#include "data/reports/sweep/report.h"

namespace wide {

/// The timelines of one call of the loop and one of the wide program, both starting at 0, as lanes
/// with bars to be drawn. `panels/fuse.cpp` shows them.
struct TimelineView {
  std::shared_ptr<const FuseReport> report;  // null, and all else empty: there is no timeline
  std::vector<Lane> lanes;
  double end_ns = 0;               // of the longer call
  std::vector<std::string> notes;  // what could not be measured
  struct At {
    size_t call = 0, span = 0;  // positions in FuseResult::timeline and in TimelineCall::spans
  };
  std::vector<std::vector<At>> spans;  // spans[lane][bar]: what the bar stands for

  // The facts about a bar, which must be one of `lanes`.
  const TimelineCall& call(const PickedBar& bar) const;
  const TimelineSpan& span(const PickedBar& bar) const;
  const TimelineItem& item(const PickedBar& bar) const;
};
/// The view of the largest N of a report, which has at least one.
TimelineView timeline_view(const FuseReport& report);

/// One line: the bar's duration, its begin and how it was computed.
std::string bar_text(const TimelineView& view, const PickedBar& bar);
/// Facts about a bar, a line each: origin in the network, share of the machine's peaks.
std::vector<std::string> bar_details(const TimelineView& view, const PickedBar& bar);

}  // namespace wide
