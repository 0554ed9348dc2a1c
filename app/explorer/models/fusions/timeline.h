#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/plot/lanes.h"
#include "data/reports/sweep/report.h"

namespace wide {

/// A call of the loop and one of the wide program as the window shows them, both from 0 on.
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

/// How long it took and by what: one line.
std::string bar_text(const TimelineView& view, const PickedBar& bar);
/// All that is known of it, a line each: where it comes from, how near it comes to the peaks.
std::vector<std::string> bar_details(const TimelineView& view, const PickedBar& bar);

}  // namespace wide
