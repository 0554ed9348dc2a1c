#include "app/explorer/models/fusions/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "data/plot/canvas.h"
#include "data/plot/measure.h"
#include "data/reports/sweep/chrome_trace.h"
#include "data/text.h"

namespace wide {
namespace {

/// "linear / packed", or only the way of widening if no primitive claimed the operator.
std::string way_of(const TimelineItem& item) {
  return item.primitive.empty() ? item.strategy : item.primitive + " / " + item.strategy;
}

double median_of(const FuseResult& result, const std::string& name) {
  for (const Timing& t : result.results)
    if (t.name == name) return t.median_ns;
  return 0;
}

std::string title_of(const TimelineCall& call, const FuseResult& result) {
  std::string title = fmt::format("{}: one call for N={}, {} traced", call.name, result.n,
                                  value_text(Measure::time, call.call_ns));
  if (const double median = median_of(result, call.name); median > 0)
    title += fmt::format(", {} untraced", value_text(Measure::time, median));
  return title;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

}  // namespace

const TimelineCall& TimelineView::call(const PickedBar& bar) const {
  return report->curve.back().timeline[spans[bar.lane][bar.bar].call];
}

const TimelineSpan& TimelineView::span(const PickedBar& bar) const {
  return call(bar).spans[spans[bar.lane][bar.bar].span];
}

const TimelineItem& TimelineView::item(const PickedBar& bar) const {
  return call(bar).items[static_cast<size_t>(span(bar).item)];
}

TimelineView timeline_view(const FuseReport& report) {
  TimelineView view;
  const FuseResult& result = report.curve.back();
  if (result.timeline.empty()) return view;
  view.report = std::make_shared<const FuseReport>(report);
  std::map<std::string, int> colours;
  const auto series_of = [&](const TimelineItem& item) {
    const std::string way = way_of(item);
    const std::string& of = way.empty() ? item.kind : way;
    return colours.emplace(of, static_cast<int>(colours.size()) % kSeriesColours).first->second;
  };
  for (size_t c = 0; c < result.timeline.size(); ++c) {
    const TimelineCall& call = result.timeline[c];
    view.end_ns = std::max(view.end_ns, call.call_ns);
    view.notes.insert(view.notes.end(), call.notes.begin(), call.notes.end());
    const size_t first = view.lanes.size();
    for (const std::string& name : call.lanes) view.lanes.push_back({"", name, {}});
    if (!call.lanes.empty()) view.lanes[first].title = title_of(call, result);
    view.spans.resize(view.lanes.size());
    for (size_t s = 0; s < call.spans.size(); ++s) {
      const TimelineSpan& span = call.spans[s];
      const TimelineItem& item = call.items[static_cast<size_t>(span.item)];
      const bool inside = item.kind == "step" || item.kind == "operator";
      const size_t lane = first + static_cast<size_t>(span.lane);
      view.lanes[lane].bars.push_back(
          {span.begin_ns, span.end_ns, inside ? 1 : 0, series_of(item), item.name});
      view.spans[lane].push_back({c, s});
    }
  }
  return view;
}

std::string bar_text(const TimelineView& view, const PickedBar& bar) {
  const TimelineSpan& span = view.span(bar);
  const std::string way = way_of(view.item(bar));
  return fmt::format("{} from {} on{}", value_text(Measure::time, span.end_ns - span.begin_ns),
                     value_text(Measure::time, span.begin_ns), way.empty() ? "" : " · " + way);
}

std::vector<std::string> bar_details(const TimelineView& view, const PickedBar& bar) {
  const TimelineCall& call = view.call(bar);
  const TimelineSpan& span = view.span(bar);
  const TimelineItem& item = view.item(bar);
  std::string where = call.lanes[static_cast<size_t>(span.lane)];
  if (span.core >= 0 && where.find("core") == std::string::npos)
    where += fmt::format(", core {}", span.core);
  std::vector<std::string> lines = {item.name + " · " + bar_text(view, bar) + " · " + where};
  if (item.node >= 0)
    lines.push_back(fmt::format("node {} of one model's program{}{}", item.node,
                                item.module.empty() ? "" : ", module " + item.module,
                                item.shape.empty() ? "" : " · makes " + item.shape));
  const PeakShares shares = shares_of(span, call, *view.report);
  const std::string cores =
      call.cores_a_lane == 1 ? "one core" : fmt::format("{} cores", call.cores_a_lane);
  std::string work;
  if (shares.flops) {
    work = fmt::format("{} of the arithmetic peak of {}", percent(*shares.flops), cores);
    if (shares.computed)
      work += fmt::format(" by the definition; its kernel computes {} of that work, at {}",
                          percent(item.computed_flops / item.flops), percent(*shares.computed));
  }
  if (item.bytes > 0) {
    if (!work.empty()) work += " · ";
    work += "reads and writes " + bytes_text(item.bytes);
    if (shares.bytes)
      work += fmt::format(", {} of the bandwidth of {}", percent(*shares.bytes), cores);
  }
  if (!work.empty()) lines.push_back(std::move(work));
  return lines;
}

}  // namespace wide
