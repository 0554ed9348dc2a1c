#include "data/reports/sweep/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/reports/apart.h"
#include "data/reports/sweep/published.h"
#include "data/reports/sweep/shape_axes.h"

namespace wide {
namespace {

/// The case's position on the axis; 0: none on a logarithmic axis.
int64_t place_of(const Case& c, const std::string& axis) {
  if (axis.empty()) return std::max<int64_t>(0, c.n);
  const auto axes = axes_of(c.shape);
  const auto at = axes.find(axis);
  return at == axes.end() ? 0 : std::max<int64_t>(0, at->second);
}

/// "N=8", "T=256".
std::string place_text(const Case& c, const std::string& axis) {
  return fmt::format("{}={}", axis.empty() ? "N" : axis, place_of(c, axis));
}

bool same_figure(const Case& a, const Case& b, const std::string& axis) {
  const bool same_rest =
      axis.empty() ? a.shape == b.shape
                   : a.n == b.n && without_axis(a.shape, axis) == without_axis(b.shape, axis);
  return a.target == b.target && same_rest && a.dtype == b.dtype && a.device == b.device &&
         a.phase == b.phase;
}

std::vector<std::vector<Case>> groups_of(const std::vector<Case>& cases, const std::string& axis,
                                         const Apart& apart) {
  std::vector<std::vector<Case>> groups;
  for (const Case& c : cases) {
    if (place_of(c, axis) < 1) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
      return same_figure(g.front(), c, axis) && apart.number(g.front()) == apart.number(c);
    });
    if (group == groups.end()) group = groups.insert(groups.end(), std::vector<Case>{});
    group->push_back(c);
  }
  return groups;
}

/// "a · b · c" without the empty parts.
std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts)
    if (!part.empty()) out += (out.empty() ? "" : " · ") + part;
  return out;
}

bool drawable(double v) { return std::isfinite(v) && v > 0; }

/// Sets the value and interval if they can be drawn on a logarithmic axis.
void set_value(CurvePoint& p, const Interval& interval) {
  if (!drawable(interval.value)) return;
  p.value = interval.value;
  if (drawable(interval.low)) p.low = interval.low;
  if (drawable(interval.high)) p.high = interval.high;
}

/// A timing's value of a measure other than the speedup.
Interval measured(const Timing& t, int64_t n, Measure measure) {
  switch (measure) {
    case Measure::speedup:
      break;
    case Measure::time:
      return {t.median_ns, t.q1_ns, t.q3_ns};
    case Measure::throughput: {
      const double models = 1e9 * static_cast<double>(n);
      return {models / t.median_ns, models / t.q3_ns, models / t.q1_ns};
    }
    case Measure::memory:
      return {static_cast<double>(t.peak_bytes), 0, 0};
    case Measure::roofline:
      return {std::max(t.flops_share, t.bytes_share), 0, 0};
    case Measure::compile:
      return {t.first_call_ns, 0, 0};
  }
  return {};
}

CurvePoint point_of(const Case& c, const Trial& t, const FigureOptions& options) {
  CurvePoint p;
  p.n = static_cast<double>(place_of(c, options.axis));
  p.incorrect = t.status == Status::incorrect;
  p.chosen = t.chosen;
  p.about =
      fmt::format("{} at {}: {}", t.strategy, place_text(c, options.axis), to_string(t.status));
  if (t.correctness) {
    p.error = t.correctness->max_rel;
    p.about += fmt::format(", error {:.2g}", t.correctness->max_rel);
  }
  if (t.status != Status::ok) return p;
  if (options.measure != Measure::speedup) {
    set_value(p, measured(t.timing, c.n, options.measure));
    if (p.value) p.about += ", " + value_text(options.measure, *p.value);
    return p;
  }
  if (!t.speedup) return p;
  const Interval speedup =
      options.over_loop ? t.speedup->vs_loop.value_or(Interval{}) : t.speedup->vs_best;
  set_value(p, speedup);
  if (!p.value) return p;
  p.about +=
      fmt::format(", {:.4g}× [{:.4g}, {:.4g}] over {}, {}", speedup.value, speedup.low,
                  speedup.high, options.over_loop ? "loop" : t.speedup->best_baseline, t.verdict);
  if (c.disturbed) p.about += ", disturbed";
  return p;
}

/// "4, 8 and 16".
std::string ns_text(const std::set<int64_t>& ns) {
  std::string text;
  for (const int64_t n : ns)
    text += (n == *ns.begin() ? "" : n == *ns.rbegin() ? " and " : ", ") + std::to_string(n);
  return text;
}

/// Notes: what is not drawn and why, one sentence for all places with the same reason; and which
/// times were disturbed by other programs.
std::vector<std::string> notes_of(const std::vector<Case>& cases, const std::string& axis,
                                  const std::set<std::string>& modes) {
  struct Note {
    std::string name, reason;
    Status status;
    std::set<int64_t> ns;
  };
  std::vector<Note> notes;
  std::set<int64_t> disturbed;
  std::set<std::string> disturbed_modes;
  double least = 1, most = 0;
  for (const Case& c : cases) {
    const auto add = [&](const std::string& what, Status status, const std::string& reason) {
      if (status == Status::ok) return;
      const std::string name = what + (modes.size() > 1 ? " · " + c.mode : "");
      auto note = std::find_if(notes.begin(), notes.end(), [&](const Note& other) {
        return other.name == name && other.reason == reason && other.status == status;
      });
      if (note == notes.end()) note = notes.insert(note, Note{name, reason, status, {}});
      note->ns.insert(place_of(c, axis));
    };
    for (const Trial& t : c.trials) add(t.strategy, t.status, t.reason);
    for (const MissingBaseline& m : c.missing) add("baseline " + m.name, m.status, m.reason);
    if (!c.disturbed) continue;
    disturbed.insert(place_of(c, axis));
    disturbed_modes.insert(c.mode);
    least = std::min(least, c.other_load);
    most = std::max(most, c.other_load);
  }
  std::vector<std::string> lines;
  const std::string name = axis.empty() ? "N" : axis;
  for (const Note& note : notes)
    lines.push_back(fmt::format("{} at {}={} {}: {}{}", note.name, name, ns_text(note.ns),
                                note.status == Status::incorrect ? "is a cross" : "is not drawn",
                                to_string(note.status),
                                note.reason.empty() ? "" : ", " + note.reason));
  if (!disturbed.empty()) {
    const std::string low = fmt::format("{:.0f}", 100 * least),
                      high = fmt::format("{:.0f}", 100 * most);
    const std::string of = disturbed_modes.size() < modes.size()
                               ? fmt::format(" of {}", fmt::join(disturbed_modes, " and "))
                               : "";
    lines.push_back(fmt::format(
        "times{} at {}={} are not to be trusted: other programs took {} % of the cores meanwhile",
        of, name, ns_text(disturbed), low == high ? low : low + " to " + high));
  }
  return lines;
}

Figure figure_of(const std::vector<Case>& cases, const FigureOptions& options) {
  const Case& first = cases.front();
  std::set<std::string> modes;
  for (const Case& c : cases) modes.insert(c.mode);
  Figure figure;
  figure.title = first.target;
  figure.axis = options.axis;
  const bool along_n = options.axis.empty();
  figure.subtitle = joined({along_n ? first.shape : without_axis(first.shape, options.axis),
                            along_n ? "" : fmt::format("N={}", first.n), first.device, first.dtype,
                            modes.size() == 1 ? first.mode : "", first.phase});
  if (options.over_loop) figure.over = "the loop";
  figure.measure = options.measure;
  const auto curve_of = [&](const std::string& name, const std::string& mode) -> Curve& {
    for (Curve& k : figure.curves)
      if (k.name == name && k.group == mode) return k;
    Curve& fresh = figure.curves.emplace_back();
    fresh.name = fresh.strategy = name;
    fresh.group = mode;
    fresh.style = static_cast<int>(figure.curves.size()) - 1;
    return fresh;
  };
  for (const Case& c : cases)
    for (const Trial& t : c.trials) {
      Curve& curve = curve_of(t.strategy, c.mode);
      curve.chosen |= t.chosen;
      curve.points.push_back(point_of(c, t, options));
    }
  // Speedups are over the baselines; for other measures, baselines have curves too.
  if (options.measure != Measure::speedup)
    for (const Case& c : cases)
      for (const Timing& b : c.baselines) {
        CurvePoint p;
        p.n = static_cast<double>(place_of(c, options.axis));
        set_value(p, measured(b, c.n, options.measure));
        if (!p.value) continue;
        p.about = fmt::format("{} at {}: {}", b.name, place_text(c, options.axis),
                              value_text(options.measure, *p.value));
        curve_of("baseline " + b.name, c.mode).points.push_back(p);
      }
  for (const Crossover& c : along_n ? crossovers(cases) : std::vector<Crossover>{})
    for (Curve& curve : figure.curves)
      if (curve.name == c.strategy && curve.group == c.mode) curve.crossover = c.n;
  std::set<double> seen;
  for (const Case& c : cases)
    for (const Trial& t : c.trials)
      if (const auto at = static_cast<double>(place_of(c, options.axis));
          t.correctness && seen.insert(at).second)
        figure.allowances.push_back({at, allowed(*t.correctness), t.correctness->eager_max_rel});
  std::ranges::sort(figure.allowances, {}, &Allowance::n);
  for (Curve& curve : figure.curves) {
    std::ranges::stable_sort(curve.points, {}, &CurvePoint::n);
    if (modes.size() > 1) curve.name += " · " + curve.group;
    if (curve.chosen) curve.name += " *";
  }
  std::erase_if(figure.curves, [](const Curve& c) {  // the notes say why
    return std::all_of(c.points.begin(), c.points.end(),
                       [](const CurvePoint& p) { return !p.value && !p.error && !p.incorrect; });
  });
  if (options.published && along_n && options.measure == Measure::speedup)
    figure.published = published_line(first);
  figure.notes = notes_of(cases, options.axis, modes);
  return figure;
}

}  // namespace

std::vector<Figure> figures_of(const std::vector<Case>& cases, const FigureOptions& options) {
  std::vector<Figure> figures;
  const Apart apart(cases);
  for (const auto& group : groups_of(cases, options.axis, apart)) {
    figures.push_back(figure_of(group, options));
    if (apart.several())
      figures.back().subtitle = joined({figures.back().subtitle, apart.of(group.front())});
  }
  return figures;
}

}  // namespace wide
