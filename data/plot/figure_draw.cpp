#include "data/plot/figure_draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/plot/canvas_text.h"

namespace wide {
namespace {

constexpr double kMarker = 7, kLabel = 10.5;
constexpr Colour kText{Tone::text}, kMuted{Tone::muted}, kGrid{Tone::grid}, kRule{Tone::rule};

/// A legend entry, placed at the height of its curve's end if neighbours leave room.
struct Entry {
  const Curve* curve;
  const CurvePoint* last;  // the last one shown, or null
  double wanted = 0, y = 0;
};

/// A text beside a line, placed at the first free one of several positions of its left end.
struct Label {
  std::string text;
  Colour colour;
  Box box;  // the label must stay inside
  std::vector<Point> places;
};

class Drawing {
 public:
  Drawing(Canvas& canvas, const Figure& figure, const Limits& limits, const FigureGeometry& g,
          const FigureView& view)
      : canvas_(canvas), figure_(figure), limits_(limits), g_(g), view_(view) {}

  DrawnFigure run() {
    canvas_.begin("figure", figure_.title + " " + figure_.subtitle);
    heading();
    axes();
    if (const Curve* curve = banded()) band(*curve);
    references();
    for (size_t i = 0; i < figure_.curves.size(); ++i)
      if (shown(figure_.curves[i])) values(figure_.curves[i], i);
    for (size_t i = 0; i < figure_.curves.size() && limits_.errors; ++i)
      if (shown(figure_.curves[i])) errors(figure_.curves[i], i);
    if (limits_.incorrect) crosses();
    for (const Label& label : labels_) place(label);
    double bottom = g_.value.bottom() + g_.lane + 36;
    if (g_.legend_below)
      bottom = legend_below(bottom + 6);
    else
      legend();
    if (view_.notes) bottom = notes(bottom);
    canvas_.end();
    drawn_.height = bottom - g_.top;
    return drawn_;
  }

 private:
  void heading() {
    const TextStyle title{kText, 15, Align::left, true}, small{kMuted, 11.5};
    canvas_.text({g_.x + 10, g_.top + 18}, shorten(canvas_, figure_.title, title, g_.width - 20),
                 title);
    canvas_.text({g_.x + 10, g_.top + 35}, shorten(canvas_, figure_.subtitle, small, g_.width - 20),
                 small);
    const TextStyle head{kText, 11.5, Align::left, true};
    canvas_.text({g_.value.x, g_.value.y - 10}, measure_title(figure_.measure, figure_.over), head);
    if (limits_.errors) canvas_.text({g_.error.x, g_.error.y - 10}, "max relative error", head);
  }

  void axes() {
    canvas_.begin("speedup axis", "");
    const auto label = [this](double value) { return value_text(figure_.measure, value); };
    for (const Tick& tick : value_ticks(g_.value_y, 22, label))
      grid_line(g_.value, g_.value_y.at(tick.value), tick.label);
    canvas_.end();
    n_axis(g_.value, g_.value_n);
    if (!limits_.errors) return;
    canvas_.begin("error axis", "");
    for (const Tick& tick : decade_ticks(g_.error_y, 22)) {
      const bool floor = limits_.exact && tick.value < limits_.error_low * 3;
      grid_line(g_.error, g_.error_y.at(tick.value), floor ? "0" : tick.label);
    }
    canvas_.end();
    n_axis(g_.error, g_.error_n);
  }

  void grid_line(const Box& box, double y, const std::string& label) {
    canvas_.line({box.x, y}, {box.right(), y}, {kGrid, 1});
    canvas_.text({box.x - 7, y + 3.5}, label, {kMuted, 10.5, Align::right});
  }

  void n_axis(const Box& box, const LogScale& scale) {
    const double bottom = box.bottom() + g_.lane;
    canvas_.begin("n axis", "");
    canvas_.line({box.x, bottom}, {box.right(), bottom}, {kRule, 1});
    std::set<double> ns(limits_.ns.begin(), limits_.ns.end());
    if (figure_.published)
      for (const Point& p : figure_.published->points) ns.insert(p.x);
    std::erase_if(ns, [this](double n) { return n < limits_.n_low || n > limits_.n_high; });
    for (const Tick& tick : n_ticks(scale, {ns.begin(), ns.end()}, 6)) {
      const double x = scale.at(tick.value);
      canvas_.line({x, bottom}, {x, bottom + 4}, {kRule, 1});
      const std::string label = figure_.places.empty() ? tick.label : place_name(tick.value);
      if (!label.empty()) canvas_.text({x, bottom + 15}, label, {kMuted, 10.5, Align::centre});
    }
    canvas_.end();
    canvas_.text({box.x + box.width / 2, bottom + 29},
                 figure_.axis.empty() ? "N models" : figure_.axis, {kMuted, 10.5, Align::centre});
  }

  /// The name of place n = 1, 2, 4, ...
  std::string place_name(double n) const {
    const auto at = static_cast<size_t>(std::lround(std::log2(n)));
    return at < figure_.places.size() ? figure_.places[at] : "";
  }

  void references() {
    if (figure_.measure == Measure::speedup) {
      if (limits_.low <= 1 && limits_.high >= 1) {
        const double one = g_.value_y.at(1);
        canvas_.begin("y=1", "as fast as " + figure_.over);
        canvas_.line({g_.value.x, one}, {g_.value.right(), one}, {kText, 1.2});
        canvas_.end();
      }
      if (figure_.axis.empty()) ideal();
      published();
    }
    if (figure_.allowances.empty() || !limits_.errors) return;
    line_of_allowances("tolerance", &Allowance::allowed, {{Tone::wrong}, 1.2, Dash::dashed});
    line_of_allowances("separate models", &Allowance::separate, {kMuted, 1, Dash::dotted});
  }

  /// The line y = N: the speedup if N models took the time of one.
  void ideal() {
    const double from = std::max(limits_.n_low, limits_.low);
    const double to = std::min(limits_.n_high, limits_.high);
    if (from >= to) return;
    canvas_.begin("y=N", "N models in the time of one");
    canvas_.line({g_.value_n.at(from), g_.value_y.at(from)}, {g_.value_n.at(to), g_.value_y.at(to)},
                 {kRule, 1, Dash::dashed});
    canvas_.end();
    const Point end{g_.value_n.at(to), g_.value_y.at(to)};
    obstacle({{g_.value_n.at(from), g_.value_y.at(from)}, end});
    labels_.push_back({"y = N",
                       kMuted,
                       g_.value,
                       {{end.x + 6, end.y + 10},
                        {end.x - 46, end.y + 10},
                        {end.x - 40, end.y + 26},
                        {end.x - 46, end.y + 50}}});
  }

  void published() {
    if (!figure_.published || figure_.published->points.empty()) return;
    if (published_beyond()) return;
    std::vector<Point> line;
    canvas_.begin("published", figure_.published->name);
    canvas_.push_clip(g_.value);
    for (const Point& p : figure_.published->points)
      line.push_back({g_.value_n.at(p.x), g_.value_y.at(p.y)});
    // One published figure holds for one N only: it is a short dash.
    if (line.size() == 1)
      canvas_.line({line[0].x - 22, line[0].y}, {line[0].x + 22, line[0].y},
                   {kMuted, 1.4, Dash::dashed});
    else
      canvas_.polyline(line, {kMuted, 1.4, Dash::dashed});
    for (const Point& p : line) canvas_.marker(p, Shape2D::diamond, 6, kMuted);
    obstacle(line);
    canvas_.pop_clip();
    canvas_.end();
    const double wide = canvas_.text_width(figure_.published->name, {kMuted, kLabel});
    const double x = std::min(line.back().x + 22, g_.value.right()) - wide;
    labels_.push_back({figure_.published->name,
                       kMuted,
                       g_.value,
                       {{x, line.back().y - 8},
                        {x, line.back().y + 15},
                        {line.back().x - 28 - wide, line.back().y + 4},
                        {x, line.back().y + 34}}});
  }

  /// If all published figures lie beyond the axes, states them at the upper edge and returns true.
  bool published_beyond() {
    const std::vector<Point>& points = figure_.published->points;
    const bool any = std::any_of(points.begin(), points.end(), [&](const Point& p) {
      return p.x >= limits_.n_low && p.x <= limits_.n_high && p.y >= limits_.low &&
             p.y <= limits_.high;
    });
    if (any) return false;
    const std::string text =
        fmt::format("{}: {} at N={}, beyond these axes", figure_.published->name,
                    value_text(Measure::speedup, points.back().y), points.back().x);
    const std::string shown = shorten(canvas_, text, {kMuted, kLabel}, g_.value.width - 8);
    const double x = g_.value.x + 4, top = g_.value.y + 11;
    const std::vector<Point> places{{x, top}, {x, g_.value.bottom() - 6}, {x, top + 16}};
    canvas_.begin("published", text);
    canvas_.end();
    labels_.push_back({shown, kMuted, g_.value, places});
    return true;
  }

  void line_of_allowances(const std::string& name, double Allowance::*what, const Stroke& stroke) {
    std::vector<Point> line;
    for (const Allowance& a : figure_.allowances)
      if (std::isfinite(a.*what) && a.*what > 0)
        line.push_back({g_.error_n.at(a.n), error_at(a.*what)});
    if (line.empty()) return;
    // Extended to the edges of the plot; only the values at the measured Ns are data.
    line.insert(line.begin(), {g_.error.x, line.front().y});
    line.push_back({g_.error.right(), line.back().y});
    canvas_.begin(name, name);
    canvas_.push_clip(g_.error);
    canvas_.polyline(line, stroke);
    canvas_.pop_clip();
    canvas_.end();
    const double left = g_.error.x + 3, first = line.front().y, last = line.back().y;
    const double right = g_.error.right() - 3 - canvas_.text_width(name, {stroke.colour, kLabel});
    labels_.push_back({name,
                       stroke.colour,
                       g_.error,
                       {{left, first - 5},
                        {left, first + 12},
                        {right, last - 5},
                        {right, last + 12},
                        {left, g_.error.bottom() - 6}}});
  }

  /// Adds points along a line as obstacles, which labels should not cover.
  void obstacle(const std::vector<Point>& line) {
    for (size_t i = 0; i < line.size(); ++i) {
      obstacles_.push_back(line[i]);
      if (i == 0) continue;
      constexpr int kSteps = 24;
      for (int k = 1; k < kSteps; ++k) {
        const double share = static_cast<double>(k) / kSteps;
        obstacles_.push_back({line[i - 1].x + share * (line[i].x - line[i - 1].x),
                              line[i - 1].y + share * (line[i].y - line[i - 1].y)});
      }
    }
  }

  /// Draws the label at the first position that covers the fewest obstacles.
  void place(const Label& label) {
    const TextStyle style{label.colour, kLabel, Align::left, false, true};
    const double wide = canvas_.text_width(label.text, style);
    const Point* best = nullptr;
    size_t fewest = 0;
    for (const Point& at : label.places) {
      const bool inside = at.x >= label.box.x && at.x + wide <= label.box.right() + 2 &&
                          at.y - kLabel >= label.box.y - 4 && at.y <= label.box.bottom();
      if (!inside) continue;
      const auto covered = static_cast<size_t>(
          std::count_if(obstacles_.begin(), obstacles_.end(), [&](const Point& p) {
            return p.x > at.x - 3 && p.x < at.x + wide + 3 && p.y > at.y - kLabel - 1 &&
                   p.y < at.y + 4;
          }));
      if (!best || covered < fewest) {
        best = &at;
        fewest = covered;
      }
    }
    if (!best) return;
    canvas_.text(*best, label.text, style);
    obstacle({{best->x, best->y - 4}, {best->x + wide, best->y - 4}});
  }

  double error_at(double error) const {
    if (!std::isfinite(error)) return g_.error.y;
    return g_.error_y.at(std::clamp(error, limits_.error_low, limits_.error_high));
  }

  /// With one N, the curves' points would cover each other, so they are placed side by side.
  double spread(const Box& box, size_t index) const {
    if (limits_.ns.size() != 1 || figure_.curves.size() < 2) return 0;
    const auto count = static_cast<double>(figure_.curves.size());
    const double step = std::min(26.0, 0.85 * box.width / count);
    return (static_cast<double>(index) - (count - 1) / 2) * step;
  }

  /// Neighbouring points that are shown, split at gaps.
  static std::vector<std::vector<const CurvePoint*>> runs(const Curve& curve) {
    std::vector<std::vector<const CurvePoint*>> out(1);
    for (const CurvePoint& p : curve.points)
      if (p.value)
        out.back().push_back(&p);
      else if (!out.back().empty())
        out.emplace_back();
    if (out.back().empty()) out.pop_back();
    return out;
  }

  bool shown(const Curve& curve) const { return view_.hidden.count(curve.name) == 0; }

  /// A curve's colour, faint if another curve is highlighted.
  Colour colour_of(const Curve& curve, double opacity = 1) const {
    const bool back = !view_.lit.empty() && view_.lit != curve.name;
    return series_colour(curve.style, back ? 0.22 * opacity : opacity);
  }

  bool inside(const CurvePoint& p) const { return p.n >= limits_.n_low && p.n <= limits_.n_high; }
  bool inside(const CurvePoint& p, double value) const {
    return inside(p) && value >= limits_.low && value <= limits_.high;
  }

  /// The one curve with a band, as bands over each other are unreadable: the highlighted one, else
  /// the selected one, else the engine's choice (at the largest N, if it differs), else an only
  /// curve.
  const Curve* banded() const {
    std::vector<const Curve*> all;
    for (const Curve& curve : figure_.curves)
      if (shown(curve)) all.push_back(&curve);
    if (all.size() == 1) return all.front();
    const std::string& name = view_.lit.empty() ? view_.selected : view_.lit;
    const Curve* chosen = nullptr;
    double at = 0;
    for (const Curve* curve : all) {
      if (!name.empty() && curve->name == name) return curve;
      for (const CurvePoint& p : curve->points)
        if (p.chosen && p.n > at) at = p.n, chosen = curve;
    }
    return name.empty() ? chosen : nullptr;
  }

  void band(const Curve& curve) {
    canvas_.begin("band " + curve.name, "");
    canvas_.push_clip(g_.value);
    for (const auto& run : runs(curve)) {
      std::vector<Point> upper, lower;
      for (const CurvePoint* p : run) {
        upper.push_back({g_.value_n.at(p->n), g_.value_y.at(p->high.value_or(*p->value))});
        lower.push_back({g_.value_n.at(p->n), g_.value_y.at(p->low.value_or(*p->value))});
      }
      if (run.size() > 1) canvas_.band(upper, lower, colour_of(curve, 0.16));
    }
    canvas_.pop_clip();
    canvas_.end();
  }

  void values(const Curve& curve, size_t index) {
    const double aside = spread(g_.value, index);
    const Colour colour = colour_of(curve);
    canvas_.begin("curve " + curve.name, curve.name);
    for (const auto& run : runs(curve)) {
      std::vector<Point> line;
      for (const CurvePoint* p : run)
        line.push_back({g_.value_n.at(p->n) + aside, g_.value_y.at(*p->value)});
      obstacle(line);
      canvas_.push_clip(g_.value);
      if (run.size() > 1) {
        canvas_.polyline(line, {colour, 1.8, series_dash(curve.style)});
      } else {  // a band of one point is a bar
        canvas_.line({line[0].x, g_.value_y.at(run[0]->high.value_or(*run[0]->value))},
                     {line[0].x, g_.value_y.at(run[0]->low.value_or(*run[0]->value))},
                     {colour_of(curve, 0.45), 3});
      }
      canvas_.pop_clip();
      for (size_t i = 0; i < run.size(); ++i) {
        const bool crossover =
            curve.crossover && static_cast<double>(*curve.crossover) == run[i]->n;
        if (!inside(*run[i], *run[i]->value)) continue;
        mark(line[i], curve, *run[i], DrawnMark::Side::value);
        if (!crossover) continue;
        canvas_.begin("crossover", fmt::format("{}: faster from N={}", curve.name, run[i]->n));
        canvas_.marker(line[i], Shape2D::ring, 2 * kMarker, colour);
        canvas_.end();
      }
    }
    canvas_.end();
  }

  /// Draws a point, outside the plot of values as a cross if it is incorrect, and notes where.
  void mark(Point at, const Curve& curve, const CurvePoint& p, DrawnMark::Side side) {
    const bool wrong = p.incorrect && side != DrawnMark::Side::value;
    canvas_.begin(wrong ? "incorrect" : "point", p.about);
    canvas_.marker(at, wrong ? Shape2D::cross : series_shape(curve.style),
                   wrong ? kMarker + 1 : kMarker, colour_of(curve));
    canvas_.end();
    drawn_.marks.push_back({&curve, &p, at, side});
  }

  void errors(const Curve& curve, size_t index) {
    const double aside = spread(g_.error, index);
    std::vector<Point> line;
    for (const CurvePoint& p : curve.points)
      if (p.error) line.push_back({g_.error_n.at(p.n) + aside, error_at(*p.error)});
    if (line.empty()) return;
    obstacle(line);
    canvas_.begin("error " + curve.name, curve.name);
    canvas_.push_clip(g_.error);
    if (line.size() > 1) canvas_.polyline(line, {colour_of(curve), 1.4, series_dash(curve.style)});
    canvas_.pop_clip();
    size_t next = 0;
    for (const CurvePoint& p : curve.points) {
      if (!p.error) continue;
      const Point at = line[next++];
      if (inside(p)) mark(at, curve, p, DrawnMark::Side::error);
    }
    canvas_.end();
  }

  /// Incorrect trials have no speedup: their crosses lie in a lane below the plot.
  void crosses() {
    const double y = g_.value.bottom() + g_.lane / 2;
    canvas_.text({g_.value.x - 4, y + 3}, "incorrect", {{Tone::wrong}, 9.5, Align::right});
    for (const double n : limits_.ns) {
      if (n < limits_.n_low || n > limits_.n_high) continue;
      std::vector<std::pair<const Curve*, const CurvePoint*>> here;
      for (const Curve& curve : figure_.curves)
        for (const CurvePoint& p : curve.points)
          if (p.incorrect && p.n == n && shown(curve)) here.emplace_back(&curve, &p);
      for (size_t i = 0; i < here.size(); ++i) {
        const double aside =
            (static_cast<double>(i) - (static_cast<double>(here.size()) - 1) / 2) * 11;
        mark({g_.value_n.at(n) + aside, y}, *here[i].first, *here[i].second, DrawnMark::Side::lane);
      }
    }
  }

  /// The best curve first, those without values, which want to be at `lowest`, last.
  std::vector<Entry> best_first(double lowest) const {
    std::vector<Entry> entries;
    for (const Curve& curve : figure_.curves) {
      Entry entry{&curve, nullptr};
      for (const CurvePoint& p : curve.points)
        if (p.value) entry.last = &p;
      entry.wanted = entry.last ? g_.value_y.at(*entry.last->value) : lowest;
      entries.push_back(entry);
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.wanted < b.wanted; });
    return entries;
  }

  void legend() {
    std::vector<Entry> entries = best_first(g_.legend.bottom());
    const bool two_lines = entries.size() <= 7;
    const double height = two_lines ? 31 : 18;
    spread_out(entries, height, g_.legend.y + 8, g_.legend.bottom() - (two_lines ? 18 : 4));
    for (const Entry& e : entries) legend_entry(e, two_lines);
  }

  /// Entries that would overlap become a block around the mean of their wanted positions.
  static void spread_out(std::vector<Entry>& entries, double height, double top, double bottom) {
    struct Block {
      double centre;
      size_t count;
    };
    std::vector<Block> blocks;
    const auto half = [&](const Block& b) {
      return (static_cast<double>(b.count) - 1) * height / 2;
    };
    const auto fit = [&](Block& b) {
      b.centre = std::max(std::min(b.centre, bottom - half(b)), top + half(b));
    };
    for (const Entry& e : entries) {
      blocks.push_back({e.wanted, 1});
      fit(blocks.back());
      while (blocks.size() > 1) {
        const Block last = blocks.back();
        Block& before = blocks[blocks.size() - 2];
        if (before.centre + half(before) + height <= last.centre - half(last)) break;
        const auto a = static_cast<double>(before.count), b = static_cast<double>(last.count);
        before = {(a * before.centre + b * last.centre) / (a + b), before.count + last.count};
        fit(before);
        blocks.pop_back();
      }
    }
    size_t next = 0;
    for (const Block& b : blocks)
      for (size_t i = 0; i < b.count; ++i)
        entries[next++].y = b.centre - half(b) + static_cast<double>(i) * height;
  }

  void legend_entry(const Entry& e, bool two_lines) {
    const Curve& curve = *e.curve;
    const double x = g_.legend.x + 6;
    if (e.last && e.last->n == limits_.ns.back() && limits_.ns.size() > 1 && shown(curve) &&
        inside(*e.last, *e.last->value)) {
      const Point from{g_.value_n.at(e.last->n) + 7, g_.value_y.at(*e.last->value)};
      canvas_.polyline({from, {g_.value.right() + 4, from.y}, {x - 4, e.y}},
                       {colour_of(curve, 0.55), 0.8});
    }
    legend_mark(x, e, g_.legend.right() - x - 41);
    if (two_lines) {
      const TextStyle small{kMuted, 10};
      canvas_.text({x + 41, e.y + 16.5},
                   shorten(canvas_, summary(e), small, g_.legend.right() - x - 37), small);
    }
    drawn_.legend.emplace_back(curve.name, Box{x, e.y - 9, g_.legend.right() - x, 18});
  }

  /// Line, marker and name of one entry, `room` wide for the name; returns the name's width.
  double legend_mark(double x, const Entry& e, double room) {
    const Curve& curve = *e.curve;
    const Colour colour = shown(curve) ? colour_of(curve) : Colour{Tone::rule};
    canvas_.begin("legend", curve.name);
    canvas_.line({x, e.y}, {x + 34, e.y}, {colour, 1.8, series_dash(curve.style)});
    canvas_.marker({x + 17, e.y}, series_shape(curve.style), kMarker, colour);
    const TextStyle name{shown(curve) ? kText : kMuted, 11.5, Align::left, curve.chosen};
    const std::string text = shorten(canvas_, curve.name, name, room);
    canvas_.text({x + 41, e.y + 4}, text, name);
    canvas_.end();
    return canvas_.text_width(text, name);
  }

  /// Draws the legend in columns below the plots, the best curve first; returns its lower end.
  double legend_below(double y) {
    std::vector<Entry> entries = best_first(g_.value.bottom());
    constexpr double kColumn = 250, kRow = 20;
    const double room = g_.width - 20;
    const auto columns = std::max<size_t>(1, static_cast<size_t>(room / kColumn));
    const double column = room / static_cast<double>(columns);
    const size_t rows = (entries.size() + columns - 1) / columns;
    for (size_t i = 0; i < entries.size(); ++i) {
      Entry& e = entries[i];
      const double x = g_.x + 10 + static_cast<double>(i / rows) * column;
      e.y = y + 8 + static_cast<double>(i % rows) * kRow;
      const double name = legend_mark(x, e, 0.6 * (column - 60));
      const TextStyle small{kMuted, 10.5};
      canvas_.text({x + 49 + name, e.y + 4},
                   shorten(canvas_, summary(e), small, column - 62 - name), small);
      drawn_.legend.emplace_back(e.curve->name, Box{x, e.y - 9, column - 8, 18});
    }
    return y + static_cast<double>(rows) * kRow + 4;
  }

  std::string summary(const Entry& e) const {
    if (!e.last) {
      const bool wrong = std::any_of(e.curve->points.begin(), e.curve->points.end(),
                                     [](const CurvePoint& p) { return p.incorrect; });
      return wrong ? "incorrect" : "no times";
    }
    std::string value = value_text(figure_.measure, *e.last->value);
    if (e.last->n != limits_.ns.back())
      value += !figure_.places.empty() ? " " + place_name(e.last->n)
               : figure_.axis.empty()  ? fmt::format(" at N={}", e.last->n)
                                       : fmt::format(" at {}={}", figure_.axis, e.last->n);
    if (!e.curve->crossover) return value;
    return fmt::format("{}, faster from {}", value, *e.curve->crossover);
  }

  double notes(double y) {
    const TextStyle small{kMuted, 10.5};
    for (const std::string& note : figure_.notes)
      for (const std::string& line : wrap(canvas_, note, small, g_.width - 20)) {
        canvas_.text({g_.x + 10, y + 10}, line, small);
        y += 15;
      }
    return y + 12;
  }

  Canvas& canvas_;
  const Figure& figure_;
  const Limits& limits_;
  const FigureGeometry& g_;
  const FigureView& view_;
  DrawnFigure drawn_;
  std::vector<Point> obstacles_;
  std::vector<Label> labels_;
};

}  // namespace

DrawnFigure draw(Canvas& canvas, const Figure& figure, const Limits& limits,
                 const FigureGeometry& geometry, const FigureView& view) {
  return Drawing(canvas, figure, limits, geometry, view).run();
}

double draw(Canvas& canvas, const Figure& figure, const Limits& limits, double x, double y,
            double width) {
  return draw(canvas, figure, limits, geometry_of(limits, x, y, width)).height;
}

}  // namespace wide
