#include "data/plot/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/plot/canvas_text.h"
#include "data/plot/scale.h"
#include "data/plot/svg.h"

namespace wide {
namespace {

constexpr double kValueRoom = 52, kLabelRoom = 84, kTopRoom = 8, kStepRoom = 40;
constexpr double kLegendRow = 18, kLegendMark = 22, kLegendShare = 0.25;
constexpr double kFarOff = 10;  // outliers: beyond 10 times the middle 96 % of all values
constexpr double kLabelGap = 14;
constexpr double kPiece = 2;  // pixels along x

const TextStyle kLegendText{{Tone::text}, 11};

/// Keeps the lowest and the highest point of every `piece` units along x, and the last point: a
/// line of very many points looks the same.
std::vector<Point> thinned_line(const std::vector<Point>& points, double piece) {
  std::vector<Point> kept;
  for (size_t i = 0; i < points.size();) {
    const double column = std::floor(points[i].x / piece);
    size_t low = i, high = i;
    for (; i < points.size() && std::floor(points[i].x / piece) == column; ++i) {
      if (points[i].y < points[low].y) low = i;
      if (points[i].y > points[high].y) high = i;
    }
    kept.push_back(points[std::min(low, high)]);
    if (low != high) kept.push_back(points[std::max(low, high)]);
  }
  if (!points.empty() && kept.back().x != points.back().x) kept.push_back(points.back());
  return kept;
}

/// Keeps one point for every `piece` units: highest upper quartile, lowest lower quartile.
void thin_band(std::vector<Point>* high, std::vector<Point>* low, double piece) {
  size_t kept = 0;
  for (size_t i = 0; i < high->size();) {
    const double column = std::floor((*high)[i].x / piece);
    Point top = (*high)[i], bottom = (*low)[i];
    for (; i < high->size() && std::floor((*high)[i].x / piece) == column; ++i) {
      top.y = std::min(top.y, (*high)[i].y);
      bottom.y = std::max(bottom.y, (*low)[i].y);
    }
    (*high)[kept] = top;
    (*low)[kept++] = bottom;
  }
  high->resize(kept);
  low->resize(kept);
}

std::vector<Point> placed(const CurveAxes& axes, const std::vector<Point>& values) {
  std::vector<Point> points;
  points.reserve(values.size());
  for (const Point& value : values)
    if (const Point at = axes.at(value); !std::isnan(at.y)) points.push_back(at);
  return thinned_line(points, kPiece);
}

void draw_line(Canvas& canvas, const CurveAxes& axes, const std::vector<Point>& values,
               const Stroke& stroke) {
  const std::vector<Point> points = placed(axes, values);
  if (points.size() > 1)
    canvas.polyline(points, stroke);
  else if (points.size() == 1)  // a single evaluation makes no line
    canvas.marker(points[0], Shape2D::circle, 2 * stroke.width + 2, stroke.colour);
}

Colour faded(Colour colour, double opacity) {
  colour.opacity = opacity;
  return colour;
}

void draw_group(Canvas& canvas, const CurveGroup& group, const CurveAxes& axes) {
  canvas.begin("group", group.name + (group.dashed ? ", training" : ""));
  if (group.models > 1) {
    std::vector<Point> low, high;
    for (size_t i = 0; i < group.median.size(); ++i) {
      const Point below = axes.at(group.low[i]), above = axes.at(group.high[i]);
      if (std::isnan(below.y) || std::isnan(above.y)) continue;
      low.push_back(below);
      high.push_back(above);
    }
    thin_band(&high, &low, kPiece);
    canvas.band(high, low, faded(group.colour, group.dashed ? 0.08 : 0.16));
  }
  if (!group.raw.empty()) draw_line(canvas, axes, group.raw, {faded(group.colour, 0.35), 1});
  draw_line(canvas, axes, group.median,
            {faded(group.colour, group.dashed ? 0.8 : 1), group.dashed ? 1.5 : 2,
             group.dashed ? Dash::dashed : Dash::solid});
  canvas.end();
}

bool on_top(const CurveGroup& group) { return group.colour.tone == Tone::series; }

struct EndLabel {
  size_t line = 0;
  Point from;
  double y = 0;
};

/// Moves labels that lie too close apart, inside the plot's height.
void spread_labels(std::vector<EndLabel>* labels, const Box& plot) {
  std::stable_sort(labels->begin(), labels->end(),
                   [](const EndLabel& a, const EndLabel& b) { return a.y < b.y; });
  double least = plot.y + 6;
  for (EndLabel& label : *labels) {
    label.y = std::max(label.y, least);
    least = label.y + kLabelGap;
  }
  double most = plot.bottom() - 2;
  for (auto label = labels->rbegin(); label != labels->rend(); ++label) {
    label->y = std::min(label->y, most);
    most = label->y - kLabelGap;
  }
}

bool within(const Box& box, const Point& p) {
  return p.x >= box.x - 1 && p.x <= box.right() + 1 && p.y >= box.y - 1 && p.y <= box.bottom() + 1;
}

/// Position on the axis from 0 to 1; NaN for values that a logarithmic axis cannot show.
double share_of(double value, double low, double high, bool logarithmic) {
  if (!logarithmic) return (value - low) / (high - low);
  return value > 0 ? std::log(value / low) / std::log(high / low) : std::nan("");
}

double value_of(double share, double low, double high, bool logarithmic) {
  return logarithmic ? low * std::pow(high / low, share) : low + share * (high - low);
}

/// Finds the last point of a line that the axes can show.
bool end_of(const CurveAxes& axes, const CurveLine& line, Point* at) {
  for (auto point = line.points.rbegin(); point != line.points.rend(); ++point) {
    *at = axes.at(*point);
    if (!std::isnan(at->y)) return true;
  }
  return false;
}

}  // namespace

double quantile_of(const std::vector<double>& ascending, double share) {
  const double place = share * double(ascending.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, ascending.size() - 1);
  return ascending[below] + (ascending[above] - ascending[below]) * (place - double(below));
}

Point CurveAxes::at(const Point& value) const {
  const double across = share_of(value.x, x_low, x_high, log_x);
  const double up = share_of(value.y, y_low, y_high, log_y);
  return {plot.x + across * plot.width, plot.bottom() - up * plot.height};
}

Point CurveAxes::value_at(const Point& unit) const {
  return {value_of((unit.x - plot.x) / plot.width, x_low, x_high, log_x),
          value_of((plot.bottom() - unit.y) / plot.height, y_low, y_high, log_y)};
}

double faint_opacity(size_t lines) {
  return std::clamp(2.5 / std::sqrt(double(std::max<size_t>(1, lines))), 0.06, 0.6);
}

CurvesLayout curves_layout(const Canvas& canvas, const CurvesFigure& figure, const Box& room) {
  CurvesLayout layout;
  for (const CurveGroup& group : figure.groups)
    if (!group.dashed && on_top(group)) layout.legend.push_back({{}, group.name, group.colour});
  if (!figure.others.empty())
    layout.legend.push_back({{}, figure.others, {Tone::muted, 0, 0.5}, 0, 1});
  // Entries take at most half the width, and rows at most a share of the height.
  const double most = std::max(150.0, room.width / 2);
  const double rows = std::max(1.0, std::floor(kLegendShare * room.height / kLegendRow));
  double x = room.x, row = 0;
  for (size_t e = 0; e < layout.legend.size(); ++e) {
    CurvesLayout::Entry& entry = layout.legend[e];
    entry.width = std::min(most, kLegendMark + 24 + canvas.text_width(entry.name, kLegendText));
    if (x > room.x && x + entry.width > room.right() + 18) {
      x = room.x;
      ++row;
    }
    if (row >= rows) {
      // The last entry becomes the number of those left out.
      const size_t left_out = layout.legend.size() - e + 1;
      layout.legend.resize(e);
      layout.legend.back().name = fmt::format("{} more without room here", left_out);
      layout.legend.back().colour = {Tone::muted, 0, 0.5};
      layout.legend.back().stroke = 1;
      row = rows - 1;
      break;
    }
    entry.at = {x, row};
    x += entry.width;
  }
  const double legend = layout.legend.empty() ? 0 : (row + 1) * kLegendRow;
  const double height = std::max(40.0, room.height - kTopRoom - kStepRoom - legend);
  layout.plot = {room.x + kValueRoom, room.y + kTopRoom,
                 std::max(40.0, room.width - kValueRoom - kLabelRoom), height};
  for (CurvesLayout::Entry& entry : layout.legend)
    entry.at.y = layout.plot.bottom() + kStepRoom + entry.at.y * kLegendRow + 10;
  layout.height = kTopRoom + height + kStepRoom + legend;
  return layout;
}

CurveAxes fitted_axes(const CurvesFigure& figure, const Box& plot) {
  CurveAxes axes;
  axes.plot = plot;
  axes.log_y = figure.log_y;
  axes.x_high = std::max(figure.x_end, 1e-9);
  std::vector<double> values;
  for (const CurveLine& line : figure.lines)
    for (const Point& point : line.points) {
      axes.x_high = std::max(axes.x_high, point.x);
      if (std::isfinite(point.y) && (!figure.log_y || point.y > 0)) values.push_back(point.y);
    }
  if (values.empty()) {
    if (figure.log_y) axes.y_low = 0.1;
    return axes;
  }
  const auto rank = [&](size_t place) {
    std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(place), values.end());
    return values[place];
  };
  const size_t last = values.size() - 1;
  double low = *std::min_element(values.begin(), values.end());
  double high = *std::max_element(values.begin(), values.end());
  const double first = rank(values.size() / 50), most = rank(last - values.size() / 50);
  if (!figure.log_y && most > first && high - low > kFarOff * (most - first)) {
    low = first;
    high = most;
  }
  if (figure.log_y) {
    const double rim = std::max(1.02, std::pow(high / low, 0.04));
    axes.y_low = low / rim;
    axes.y_high = high * rim;
  } else {
    const double least = std::max(1e-6 * std::max(std::abs(low), std::abs(high)), 1e-12);
    const double rim = std::max(0.04 * (high - low), least);
    axes.y_low = low - rim;
    axes.y_high = high + rim;
  }
  return axes;
}

void draw_curve_axes(Canvas& canvas, const CurvesFigure& figure, const CurveAxes& axes,
                     const Box& room) {
  const Box& plot = axes.plot;
  const TextStyle label{{Tone::muted}, 11, Align::right}, under{{Tone::muted}, 11, Align::centre};
  const Stroke grid{{Tone::grid}}, rule{{Tone::rule}};
  const LogScale scale{axes.y_low, axes.y_high, plot.bottom(), plot.y};
  const int most = std::max(4, static_cast<int>(plot.height / 30));
  const std::vector<Tick> ys = axes.log_y ? value_ticks(scale, 24, short_number)
                                          : linear_ticks(axes.y_low, axes.y_high, most);
  const LogScale across{axes.x_low, axes.x_high, plot.x, plot.right()};
  const std::vector<Tick> xs =
      axes.log_x
          ? value_ticks(across, 48, short_number)
          : linear_ticks(axes.x_low, axes.x_high, std::max(2, static_cast<int>(plot.width / 70)));
  canvas.begin("y-axis", figure.y_name);
  double free = 1e9;
  for (const Tick& tick : ys) {
    const double y = axes.at({axes.x_low, tick.value}).y;
    canvas.line({plot.x, y}, {plot.right(), y}, grid);
    if (free - y < 12) continue;  // labels would overlap
    canvas.text({plot.x - 6, y + 4}, tick.label, label);
    free = y;
  }
  canvas.end();
  canvas.begin("x-axis", figure.x_name);
  double taken = -1e9;
  for (const Tick& tick : xs) {
    const double x = axes.at({tick.value, axes.y_high}).x;
    canvas.line({x, plot.y}, {x, plot.bottom()}, grid);
    const double half = canvas.text_width(tick.label, under) / 2;
    if (x - half < taken) continue;
    canvas.text({x, plot.bottom() + 16}, tick.label, under);
    taken = x + half + 6;
  }
  canvas.end();
  canvas.line({plot.x, plot.bottom()}, {plot.right(), plot.bottom()}, rule);
  canvas.line({plot.x, plot.y}, {plot.x, plot.bottom()}, rule);
  const std::string models =
      figure.total > 0 ? fmt::format("{} of {} models shown · ", figure.shown, figure.total) : "";
  const std::string said = fmt::format("{}{}{} against {}", models, figure.y_name,
                                       figure.log_y ? ", logarithmic" : "", figure.x_name);
  const TextStyle name{{Tone::text}, 11};
  canvas.text({room.x + 4, plot.bottom() + 33}, shorten(canvas, said, name, room.width - 8), name);
}

std::vector<DrawnCurveEnd> draw_curves(Canvas& canvas, const CurvesFigure& figure,
                                       const CurveAxes& axes, const CurvesLayout& layout,
                                       const CurvesLook& look) {
  const Box& plot = axes.plot;
  std::vector<DrawnCurveEnd> ends;
  const auto colour_of = [&](const CurveLine& line) { return figure.groups[line.group].colour; };
  canvas.push_clip(plot);
  if (look.faint)
    for (const CurveLine& line : figure.lines) {
      canvas.begin("curve", line.name);
      draw_line(canvas, axes, line.points,
                {faded(colour_of(line), faint_opacity(figure.lines.size())), 1,
                 line.dashed ? Dash::dashed : Dash::solid});
      canvas.end();
    }
  for (auto group = figure.groups.rbegin(); group != figure.groups.rend(); ++group)
    if (on_top(*group)) draw_group(canvas, *group, axes);  // the best one over all others
  for (size_t i = 0; i < figure.lines.size(); ++i) {
    const CurveLine& line = figure.lines[i];
    Point at;
    if (line.end == CurveEnd::none || line.dashed || !end_of(axes, line, &at)) continue;
    if (!within(plot, at)) continue;
    canvas.begin(line.end == CurveEnd::diverged ? "diverged" : "stopped", line.name);
    if (line.end == CurveEnd::diverged)
      canvas.marker(at, Shape2D::cross, 7, {Tone::wrong});
    else
      canvas.marker(at, Shape2D::circle, 5, colour_of(line));
    canvas.end();
    ends.push_back({i, at});
  }
  for (const CurveLine& line : figure.lines) {
    if (line.key != look.lit) continue;
    canvas.begin("lit", line.name);
    if (!line.raw.empty()) draw_line(canvas, axes, line.raw, {{Tone::text, 0, 0.35}, 1});
    draw_line(canvas, axes, line.points,
              {{Tone::text}, 2.5, line.dashed ? Dash::dashed : Dash::solid});
    canvas.end();
  }
  canvas.pop_clip();
  std::vector<EndLabel> labels;
  for (const size_t i : figure.labelled) {
    Point at;
    if (!end_of(axes, figure.lines[i], &at) || !within(plot, at)) continue;
    if (double(labels.size() + 1) * kLabelGap > plot.height) break;  // the best ones come first
    labels.push_back({i, at, at.y + 4});
    ends.push_back({i, at});
  }
  spread_labels(&labels, plot);
  for (const EndLabel& label : labels) {
    const CurveLine& line = figure.lines[label.line];
    const TextStyle style{{Tone::text}, 11, Align::left, line.key == look.lit};
    const double x = plot.right() + 12;
    canvas.begin("best", line.name);
    canvas.line({label.from.x + 2, label.from.y}, {x - 3, label.y - 4}, {{Tone::rule, 0, 0.7}});
    canvas.text({x, label.y}, shorten(canvas, line.name, style, kLabelRoom - 14), style);
    canvas.end();
  }
  for (const CurvesLayout::Entry& entry : layout.legend) {
    const Point& at = entry.at;
    canvas.begin("legend", entry.name);
    canvas.line({at.x, at.y - 4}, {at.x + kLegendMark, at.y - 4}, {entry.colour, entry.stroke});
    canvas.text({at.x + kLegendMark + 6, at.y},
                shorten(canvas, entry.name, kLegendText, entry.width - kLegendMark - 12),
                kLegendText);
    canvas.end();
  }
  return ends;
}

namespace {

constexpr double kDocumentWide = 900, kDocumentRoom = 480;

/// Draws the plot below `top`; returns its lower end.
double draw_whole(Canvas& canvas, const CurvesFigure& figure, double top) {
  const Box room{12, top, kDocumentWide - 24, kDocumentRoom};
  const CurvesLayout layout = curves_layout(canvas, figure, room);
  const CurveAxes axes = fitted_axes(figure, layout.plot);
  draw_curve_axes(canvas, figure, axes, room);
  draw_curves(canvas, figure, axes, layout, {});
  return top + layout.height;
}

}  // namespace

std::string curves_document(const CurvesFigure& figure, const std::string& footer) {
  SvgCanvas canvas(kDocumentWide, 0);
  const TextStyle title{{Tone::text}, 15, Align::left, true}, small{{Tone::muted}, 10.5};
  canvas.text({12, 22}, shorten(canvas, figure.title, title, kDocumentWide - 24), title);
  const double bottom = draw_whole(canvas, figure, 34);
  canvas.text({12, bottom + 14}, shorten(canvas, footer, small, kDocumentWide - 24), small);
  canvas.set_height(bottom + 24);
  return canvas.document(figure.title);
}

std::string curves_element(const CurvesFigure& figure) {
  SvgCanvas canvas(kDocumentWide, 0);
  canvas.set_height(draw_whole(canvas, figure, 0) + 6);
  return canvas.element(figure.title + " " + figure.y_name);
}

}  // namespace wide
