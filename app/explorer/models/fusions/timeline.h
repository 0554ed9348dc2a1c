#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/plot/lanes.h"
#include "data/reports/sweep/report.h"

namespace wide {

/// The timelines of a call of the loop and of the wide program, both starting at 0.
struct TimelineView {
  std::shared_ptr<const FuseReport> report;  // null: a fusion without a timeline
  std::vector<Lane> lanes;
  double end_ns = 0;  // of the longer call
  std::vector<std::string> notes;
  struct At {
    size_t call = 0, span = 0;
  };
  std::vector<std::vector<At>> spans;  // by lane and bar

  const TimelineCall& call(const PickedBar& bar) const;
  const TimelineSpan& span(const PickedBar& bar) const;
  const TimelineItem& item(const PickedBar& bar) const;
};
TimelineView timeline_view(const FuseReport& report);

/// One line: the bar's duration and operator.
std::string bar_text(const TimelineView& view, const PickedBar& bar);
/// Facts about a bar, a line each: origin in the network, share of the machine's peaks.
std::vector<std::string> bar_details(const TimelineView& view, const PickedBar& bar);

}  // namespace wide
