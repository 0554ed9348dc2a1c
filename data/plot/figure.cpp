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
  if (figure.published && figure.published->comparable)
    for (const Point& p : figure.published->points) values.add(p.y);
  if (values.empty()) values.add(1);
  all = values;
  for (const Curve& curve : figure.curves)
    for (const CurvePoint& p : curve.points) {
      // Clips wide intervals, which would squeeze all curves.
      if (p.low) all.add(std::max(*p.low, values.low / 2));
      if (p.high) all.add(std::min(*p.high, values.high * 2));
    }
  // Leaves room for the beginning of the line y = N.
  if (speedup && figure.axis.empty())
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
  // Whole decades, within limits; larger or smaller errors are drawn at the edge.
  const double low = std::clamp(std::floor(std::log10(errors.low) - 0.1), -18.0, 3.0);
  const double high = std::clamp(std::ceil(std::log10(errors.high) + 0.1), low + 2, 4.0 + 2);
  limits->error_low = std::pow(10.0, limits->exact ? low - 1 : low);
  limits->error_high = std::pow(10.0, high);
}

}  // namespace

Limits limits_of(const Figure& figure) {
  Limits limits;
  limits.errors = figure.errors;
  std::set<double> ns;
  for (const Curve& curve : figure.curves)
    for (const CurvePoint& p : curve.points) {
      ns.insert(p.n);
      limits.incorrect |= p.incorrect;
    }
  limits.ns.assign(ns.begin(), ns.end());
  if (figure.published && figure.published->comparable)
    for (const Point& p : figure.published->points) ns.insert(p.x);
  if (!ns.empty()) {
    // The same margin on both sides, as a share of the axis.
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
      // Styles are numbered anew in each part.
      part.curves.back().style = static_cast<int>(part.curves.size()) - 1;
      if (part.curves.size() == kMostCurves) flush();
    }
    flush();
  }
  parts.back().notes = figure.notes;
  return parts;
}

}  // namespace wide
