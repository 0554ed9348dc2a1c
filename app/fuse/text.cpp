#include "app/fuse/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "app/results/table.h"
#include "data/reports/sweep/chrome_trace.h"
#include "data/text.h"

namespace wide {
namespace {

std::string coverage_line(const FuseResult& r) {
  std::string out;
  for (const Way way : {Way::strategy, Way::vmap, Way::shared, Way::per_model}) {
    const auto it = r.coverage.find(way);
    out += fmt::format("{}{} {}", out.empty() ? "" : " · ", it == r.coverage.end() ? 0 : it->second,
                       to_string(way));
  }
  return out;
}

/// Each different fallback once, with its count.
std::string fallback_lines(const FuseResult& r) {
  std::map<std::string, int> counts;
  for (const Fallback& f : r.fallbacks)
    ++counts[f.op + (f.reason.empty() ? "" : ": " + printable(f.reason, 200))];
  if (counts.empty()) return "fallbacks    none\n";
  std::string out;
  for (const auto& [text, count] : counts)
    out += fmt::format("fallback     {}{}\n", text, count > 1 ? fmt::format(" ({}x)", count) : "");
  return out;
}

/// How many cores one step of the wide program can use: it runs on one thread, or on all.
int64_t cores_of_a_step(const FuseResult& r) {
  for (const TimelineCall& call : r.timeline)
    if (call.name == "wide") return call.cores_a_lane;
  return 1;
}

std::string verdict_text(const FuseResult& r) {
  const std::string word = verdict_of(r);
  return word + (r.disturbed && !word.empty() ? ", disturbed" : "");
}

std::string correctness_line(const Correctness& c) {
  if (!c.pass) return "INCORRECT: " + printable(c.failure, 300);
  return fmt::format("yes: error {} (separate models {}, tolerance {}){}{}{}",
                     error_text(c.max_rel), error_text(c.eager_max_rel), error_text(c.tolerance),
                     c.isolated ? ", isolated" : "", c.ordered ? ", ordered" : "",
                     c.note.empty() ? "" : "; " + c.note);
}

std::string times(const FuseResult& r) {
  Table table({"", "median", "q1 .. q3", "calls", "vs loop", "vs best baseline", ""},
              {false, true, true, true, true, true, false});
  const auto loop =
      std::ranges::find_if(r.results, [](const Timing& t) { return t.name == "loop"; });
  for (const Timing& t : r.results) {
    std::vector<std::string> row = {t.name, time_text(t.median_ns),
                                    time_text(t.q1_ns) + " .. " + time_text(t.q3_ns),
                                    fmt::format("{}x{}", t.samples_ns.size(), t.calls_per_sample)};
    if (t.kind == "candidate" && r.speedup) {
      row.push_back(speedup_text(r.speedup->vs_loop));
      row.push_back(speedup_text(r.speedup->vs_best) + " over " + r.speedup->best_baseline);
      row.push_back(verdict_text(r));
    } else if (t.kind == "baseline" && loop != r.results.end() && t.median_ns > 0) {
      row.push_back(fmt::format("{:.2f}x", loop->median_ns / t.median_ns));
    }
    table.add(std::move(row));
  }
  return table.text();
}

}  // namespace

std::string fuse_text(const FuseReport& report, const FuseResult& r, int64_t shared_nodes) {
  std::string out =
      fmt::format("{}   n={} · {} · {} · {} · {} threads\n", printable(report.model), r.n,
                  report.device, report.dtype, report.mode, report.environment.threads);
  out += "coverage     " + coverage_line(r) + " (nodes)\n";
  if (shared_nodes)
    out += fmt::format("shared       {} nodes are computed once for all models\n", shared_nodes);
  out += fallback_lines(r);
  out += "correct      " + correctness_line(r.correctness) + "\n";
  out += fmt::format("memory       {} wide, {} separate\n",
                     bytes_text(static_cast<double>(r.wide_bytes)),
                     bytes_text(static_cast<double>(r.separate_bytes)));
  if (report.largest_n)
    out += fmt::format("largest n    {} by estimate of memory\n", report.largest_n);
  if (const auto& w = report.weights)
    out += fmt::format(
        "weights      {} of {} loaded in {}{}\n",
        w->checkpoints == 1 ? "1 checkpoint" : fmt::format("{} checkpoints", w->checkpoints),
        bytes_text(static_cast<double>(w->file_bytes)), time_text(w->load_ns),
        w->equal_bytes ? fmt::format("; {} are copies of equal weights",
                                     bytes_text(static_cast<double>(w->equal_bytes)))
                       : "");
  if (!r.plan.empty() && r.plan.find('\n') == std::string::npos)
    out += "plan         " + r.plan + "\n";
  out += "first call   " + time_text(r.first_call_ns) + "\n";
  for (const std::string& note : r.notes) out += "note         " + printable(note, 300) + "\n";
  return out + "\n" + times(r);
}

std::string curve_text(const FuseReport& report) {
  Table table({"N", "loop", "best baseline", "wide", "models/s", "vs loop", "vs best baseline",
               "wide memory", "separate", "error", ""},
              {true, true, true, true, true, true, true, true, true, true, false});
  for (const FuseResult& r : report.curve) {
    std::string loop, best, own, rate;
    for (const Timing& t : r.results) {
      if (t.name == "loop") loop = time_text(t.median_ns);
      if (r.speedup && t.name == r.speedup->best_baseline)
        best = time_text(t.median_ns) + " " + t.name;
      if (t.kind != "candidate") continue;
      own = time_text(t.median_ns);
      if (t.median_ns > 0)
        rate = fmt::format("{:.0f}", 1e9 * static_cast<double>(r.n) / t.median_ns);
    }
    table.add({fmt::format("{}", r.n), loop, best, own, rate,
               r.speedup ? speedup_text(r.speedup->vs_loop) : "",
               r.speedup ? speedup_text(r.speedup->vs_best) : "",
               bytes_text(static_cast<double>(r.wide_bytes)),
               bytes_text(static_cast<double>(r.separate_bytes)), error_text(r.correctness.max_rel),
               r.correctness.pass ? verdict_text(r) : "INCORRECT"});
  }
  std::string out = table.text();
  if (const auto& along = report.along_n) {
    out += along->crossover ? fmt::format("faster from  n={}\n", *along->crossover)
                            : "faster from  no n that was measured\n";
    if (along->best_n)
      out += fmt::format("most         n={}: {:.0f} models a second\n", along->best_n,
                         along->models_per_s);
  }
  return out;
}

std::string coverage_text(const FuseResult& r) {
  Table nodes({"node", "operator", "way", "strategy", "module", "reason"},
              {true, false, false, false, false, false});
  for (const CoverageItem& i : r.items)
    nodes.add({i.nodes > 1 ? fmt::format("{}-{}", i.node, i.node + i.nodes - 1)
                           : fmt::format("{}", i.node),
               i.op, to_string(i.way),
               i.primitive.empty() ? i.strategy : i.primitive + "/" + i.strategy, i.module,
               printable(i.reason, 160)});
  std::string out = coverage_line(r) + " (nodes)\n" + nodes.text("  ");
  if (!r.plan.empty()) out += "\nplan\n  " + r.plan + (r.plan.back() == '\n' ? "" : "\n");
  return out;
}

std::string explain_text(const FuseReport& report, const FuseResult& r) {
  Table steps({"step", "time", "share", "of peak", "memory", "strategy", "shape", "module"},
              {false, true, true, true, true, false, false, false});
  for (const StepCost& s : r.steps) {
    const PeakShares shares =
        shares_of({s.flops, s.computed_flops, s.bytes}, s.median_ns, cores_of_a_step(r), report);
    const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
    std::string peak = shares.flops ? percent(*shares.flops) : "";
    if (shares.computed) peak += fmt::format(" (computed {})", percent(*shares.computed));
    steps.add({s.op, time_text(s.median_ns), fmt::format("{:.1f} %", 100 * s.share), peak,
               s.bytes > 0 ? bytes_text(s.bytes) : "",
               s.primitive.empty() ? s.strategy : s.primitive + "/" + s.strategy, s.shape,
               s.module});
  }
  return "\nrecorded nodes: " + coverage_text(r) + "\nwide steps\n" + steps.text("  ");
}

}  // namespace wide
