#include "data/reports/sweep/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace wide {
namespace {

using Json = nlohmann::ordered_json;

/// Bytes per second of the cache or memory that holds this many bytes, all threads together.
double bandwidth_of(const Environment& e, double bytes) {
  for (const MemoryLevel& level : e.bandwidth)
    if (bytes <= level.working_set) return level.bytes_per_s;
  return e.peak_bytes_per_s;
}

Json about(const TimelineSpan& span, const TimelineCall& call, const FuseReport& report) {
  const TimelineItem& item = call.items[static_cast<size_t>(span.item)];
  Json args = Json::object();
  const auto add_text = [&](const char* name, const std::string& text) {
    if (!text.empty()) args[name] = text;
  };
  const auto add_number = [&](const char* name, double value) {
    if (value > 0) args[name] = value;
  };
  add_text("module", item.module);
  add_text("primitive", item.primitive);
  add_text("strategy", item.strategy);
  add_text("shape", item.shape);
  if (item.node >= 0) args["node"] = item.node;
  if (span.core >= 0) args["core"] = span.core;
  add_number("flops", item.flops);
  add_number("computed_flops", item.computed_flops);
  add_number("bytes", item.bytes);
  const PeakShares shares = shares_of(span, call, report);
  if (shares.flops) args["share_of_peak_flops"] = *shares.flops;
  if (shares.computed) args["share_of_peak_computed"] = *shares.computed;
  if (shares.bytes) args["share_of_peak_bytes"] = *shares.bytes;
  return args;
}

}  // namespace

PeakShares shares_of(const StepWork& work, double ns, int64_t cores, const FuseReport& report) {
  const Environment& e = report.environment;
  const double seconds = ns * 1e-9;
  PeakShares shares;
  if (!(seconds > 0) || e.threads < 1) return shares;
  // The peaks were measured with all threads together.
  const double part = static_cast<double>(cores) / static_cast<double>(e.threads);
  const auto peak = e.peak_flops_per_s.find(report.dtype);
  if (peak != e.peak_flops_per_s.end() && peak->second > 0) {
    const double most = peak->second * part * seconds;
    if (work.flops > 0) shares.flops = work.flops / most;
    if (work.computed_flops > 0) shares.computed = work.computed_flops / most;
  }
  const double bandwidth = bandwidth_of(e, work.bytes / part) * part;
  if (work.bytes > 0 && bandwidth > 0) shares.bytes = work.bytes / (bandwidth * seconds);
  return shares;
}

PeakShares shares_of(const TimelineSpan& span, const TimelineCall& call, const FuseReport& report) {
  const TimelineItem& item = call.items[static_cast<size_t>(span.item)];
  return shares_of({item.flops, item.computed_flops, item.bytes}, span.end_ns - span.begin_ns,
                   call.cores_a_lane, report);
}

Json chrome_trace(const FuseReport& report, const FuseResult& result) {
  Json events = Json::array(), calls = Json::array();
  int process = 0;
  for (const TimelineCall& call : result.timeline) {
    ++process;
    const auto name = [&](const char* what, int thread, const std::string& text) {
      events.push_back({{"ph", "M"},
                        {"name", what},
                        {"pid", process},
                        {"tid", thread},
                        {"args", {{"name", text}}}});
    };
    name("process_name", 0,
         fmt::format("{}: one call for n={} of {}", call.name, result.n, report.model));
    for (size_t lane = 0; lane < call.lanes.size(); ++lane)
      name("thread_name", static_cast<int>(lane) + 1, call.lanes[lane]);
    for (const TimelineSpan& span : call.spans) {
      const TimelineItem& item = call.items[static_cast<size_t>(span.item)];
      events.push_back({{"ph", "X"},
                        {"name", item.name},
                        {"cat", item.kind},
                        {"pid", process},
                        {"tid", span.lane + 1},
                        {"ts", span.begin_ns / 1e3},
                        {"dur", (span.end_ns - span.begin_ns) / 1e3},
                        {"args", about(span, call, report)}});
    }
    Json told = {{"name", call.name},
                 {"calls_watched", call.calls},
                 {"call_ns", call.call_ns},
                 {"cores_a_lane", call.cores_a_lane},
                 {"notes", call.notes}};
    for (const Timing& t : result.results)
      if (t.name == call.name) told["median_ns_unwatched"] = t.median_ns;
    calls.push_back(std::move(told));
  }
  const Environment& e = report.environment;
  return {{"displayTimeUnit", "ns"},
          {"otherData",
           {{"model", report.model},
            {"n", result.n},
            {"device", report.device},
            {"dtype", report.dtype},
            {"mode", report.mode},
            {"threads", e.threads},
            {"cpu", e.cpu},
            {"command", e.command},
            {"date", e.date},
            {"calls", std::move(calls)}}},
          {"traceEvents", std::move(events)}};
}

}  // namespace wide
