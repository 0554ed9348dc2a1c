#include "data/plot/figure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace wide {
namespace {

/// The smallest and largest of what was added.
struct Range {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  void add(double value) {
    if (!std::isfinite(value) || value <= 0) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return high <= 0; }
};

void fit_values(const Figure& figure, Limits* limits) {
  const bool speedup = figure.measure == Measure::speedup;
  Range values, all;
  if (speedup) values.add(1);
  for (const Curve& curve : figure.curves)
    for (const CurvePoint& p : curve.points)
      if (p.value) values.add(*p.value);
  if (figure.published)
    for (const Point& p : figure.published->points) values.add(p.y);
  if (values.empty()) values.add(1);
  all = values;
  for (const Curve& curve : figure.curves)
    for (const CurvePoint& p : curve.points) {
      // One hopeless interval must not flatten everything else.
      if (p.low) all.add(std::max(*p.low, values.low / 2));
      if (p.high) all.add(std::min(*p.high, values.high * 2));
    }
  // The line y = N enters at the left: room for its beginning, not for all of it.
  if (speedup)
    all.add(std::min(limits->ns.empty() ? 1 : limits->ns.front() * 1.3, 16 * values.high));
  limits->low = all.low / 1.15;
  limits->high = all.high * 1.15;
}

void fit_error(const Figure& figure, Limits* limits) {
  Range errors;
  for (const Curve& curve : figure.curves)
    for (const CurvePoint& p : curve.points)
      if (p.error) {
        errors.add(*p.error);
        limits->exact |= *p.error == 0;
      }
  for (const Allowance& a : figure.allowances) {
    errors.add(a.allowed);
    errors.add(a.separate);
  }
  if (errors.empty()) errors.add(1e-6);
  // Whole decades; errors far beyond any sense stay at the edge.
  const double low = std::clamp(std::floor(std::log10(errors.low) - 0.1), -18.0, 3.0);
  const double high = std::clamp(std::ceil(std::log10(errors.high) + 0.1), low + 2, 4.0 + 2);
  limits->error_low = std::pow(10.0, limits->exact ? low - 1 : low);
  limits->error_high = std::pow(10.0, high);
}

/// A font's advance is its width: text is cut between characters, never inside one.
size_t next_character(const std::string& text, size_t at) {
  ++at;
  while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
  return at;
}

}  // namespace

Limits limits_of(const Figure& figure) {
  Limits limits;
  std::set<double> ns;
  for (const Curve& curve : figure.curves)
    for (const CurvePoint& p : curve.points) {
      ns.insert(p.n);
      limits.incorrect |= p.incorrect;
    }
  limits.ns.assign(ns.begin(), ns.end());
  if (figure.published)
    for (const Point& p : figure.published->points) ns.insert(p.x);
  if (!ns.empty()) {
    // The same air at both sides, however long the axis.
    const double air = ns.size() == 1 ? 1.5 : std::pow(*ns.rbegin() / *ns.begin(), 0.035);
    limits.n_low = *ns.begin() / air;
    limits.n_high = *ns.rbegin() * air;
  }
  fit_values(figure, &limits);
  fit_error(figure, &limits);
  return limits;
}

std::vector<Figure> split(const Figure& figure) {
  if (figure.curves.size() <= kMostCurves) return {figure};
  std::vector<std::string> groups;
  for (const Curve& curve : figure.curves)
    if (std::find(groups.begin(), groups.end(), curve.group) == groups.end())
      groups.push_back(curve.group);
  std::vector<Figure> parts;
  for (const std::string& group : groups) {
    Figure part = figure;
    part.notes.clear();
    part.curves.clear();
    const auto flush = [&] {
      if (part.curves.empty()) return;
      if (!group.empty() && groups.size() > 1) part.subtitle += " · " + group;
      parts.push_back(part);
      part.subtitle = figure.subtitle;
      part.curves.clear();
    };
    for (const Curve& curve : figure.curves) {
      if (curve.group != group) continue;
      part.curves.push_back(curve);
      // Parts are compared side by side: a strategy looks the same in all of them.
      part.curves.back().style = static_cast<int>(part.curves.size()) - 1;
      if (part.curves.size() == kMostCurves) flush();
    }
    flush();
  }
  parts.back().notes = figure.notes;
  return parts;
}

std::vector<std::string> wrap(const Canvas& canvas, const std::string& text, const TextStyle& style,
                              double width) {
  std::vector<std::string> lines;
  std::string line;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    const std::string longer = line.empty() ? word : line + " " + word;
    if (!line.empty() && canvas.text_width(longer, style) > width) {
      lines.push_back(line);
      line = word;
    } else {
      line = longer;
    }
    // A word wider than the page is broken where it must be.
    while (canvas.text_width(line, style) > width) {
      size_t fits = next_character(line, 0);
      for (size_t next = fits; next < line.size(); next = next_character(line, next)) {
        if (canvas.text_width(line.substr(0, next), style) > width) break;
        fits = next;
      }
      if (fits >= line.size()) break;
      lines.push_back(line.substr(0, fits));
      line.erase(0, fits);
    }
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

std::string shorten(const Canvas& canvas, const std::string& text, const TextStyle& style,
                    double width) {
  if (canvas.text_width(text, style) <= width) return text;
  size_t fits = 0;
  for (size_t next = next_character(text, 0); next < text.size(); next = next_character(text, next))
    if (canvas.text_width(text.substr(0, next) + "...", style) <= width)
      fits = next;
    else
      break;
  return text.substr(0, fits) + "...";
}

}  // namespace wide
