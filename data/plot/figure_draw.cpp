#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/plot/figure.h"
#include "data/plot/scale.h"

namespace wide {
namespace {

constexpr double kPlotHeight = 232, kLane = 20, kMarker = 7, kLabel = 10.5;
constexpr Colour kText{Tone::text}, kMuted{Tone::muted}, kGrid{Tone::grid}, kRule{Tone::rule};

/// An entry of the legend stands where its curve ends, as far as its neighbours allow.
struct Entry {
  const Curve* curve;
  const CurvePoint* last;  // the last one shown, or null
  double wanted = 0, y = 0;
};

/// Text beside a line, at the first of some places (of its baseline's left end) that is free.
struct Label {
  std::string text;
  Colour colour;
  Box box;  // must not leave it
  std::vector<Point> places;
};

class Drawing {
 public:
  Drawing(Canvas& canvas, const Figure& figure, const Limits& limits, double x, double y,
          double width)
      : canvas_(canvas), figure_(figure), limits_(limits), x_(x), top_(y), width_(width) {
    const double panels = y + 66, left = x + 54;
    speedup_box_ = {left, panels, 0.42 * width, kPlotHeight};
    legend_ = {speedup_box_.right() + 16, panels, 0.22 * width, kPlotHeight};
    const double second = legend_.right() + 44;
    error_box_ = {second, panels, x + width - 10 - second, kPlotHeight};
    lane_ = limits.incorrect ? kLane : 0;
    speedup_y_ = {limits.low, limits.high, speedup_box_.bottom(), speedup_box_.y};
    error_y_ = {limits.error_low, limits.error_high, error_box_.bottom(), error_box_.y};
    speedup_n_ = {limits.n_low, limits.n_high, speedup_box_.x, speedup_box_.right()};
    error_n_ = {limits.n_low, limits.n_high, error_box_.x, error_box_.right()};
  }

  double run() {
    canvas_.begin("figure", figure_.title + " " + figure_.subtitle);
    heading();
    axes();
    for (const Curve& curve : figure_.curves) band(curve);
    references();
    for (size_t i = 0; i < figure_.curves.size(); ++i) speedups(figure_.curves[i], i);
    for (size_t i = 0; i < figure_.curves.size(); ++i) errors(figure_.curves[i], i);
    if (limits_.incorrect) crosses();
    for (const Label& label : labels_) place(label);
    legend();
    const double bottom = notes(speedup_box_.bottom() + lane_ + 36);
    canvas_.end();
    return bottom - top_;
  }

 private:
  void heading() {
    const TextStyle title{kText, 15, Align::left, true}, small{kMuted, 11.5};
    canvas_.text({x_ + 10, top_ + 18}, shorten(canvas_, figure_.title, title, width_ - 20), title);
    canvas_.text({x_ + 10, top_ + 35}, shorten(canvas_, figure_.subtitle, small, width_ - 20),
                 small);
    const TextStyle head{kText, 11.5, Align::left, true};
    canvas_.text({speedup_box_.x, speedup_box_.y - 10}, "speedup over " + figure_.over, head);
    canvas_.text({error_box_.x, error_box_.y - 10}, "max relative error", head);
  }

  void axes() {
    canvas_.begin("speedup axis", "");
    for (const Tick& tick : ratio_ticks(speedup_y_, 22))
      grid_line(speedup_box_, speedup_y_.at(tick.value), tick.label);
    canvas_.end();
    canvas_.begin("error axis", "");
    for (const Tick& tick : decade_ticks(error_y_, 22)) {
      const bool floor = limits_.exact && tick.value < limits_.error_low * 3;
      grid_line(error_box_, error_y_.at(tick.value), floor ? "0" : tick.label);
    }
    canvas_.end();
    n_axis(speedup_box_, speedup_n_);
    n_axis(error_box_, error_n_);
  }

  void grid_line(const Box& box, double y, const std::string& label) {
    canvas_.line({box.x, y}, {box.right(), y}, {kGrid, 1});
    canvas_.text({box.x - 7, y + 3.5}, label, {kMuted, 10.5, Align::right});
  }

  void n_axis(const Box& box, const LogScale& scale) {
    const double bottom = box.bottom() + lane_;
    canvas_.begin("n axis", "");
    canvas_.line({box.x, bottom}, {box.right(), bottom}, {kRule, 1});
    std::set<double> ns(limits_.ns.begin(), limits_.ns.end());
    if (figure_.published)
      for (const Point& p : figure_.published->points) ns.insert(p.x);
    for (const Tick& tick : n_ticks(scale, {ns.begin(), ns.end()}, 6)) {
      const double x = scale.at(tick.value);
      canvas_.line({x, bottom}, {x, bottom + 4}, {kRule, 1});
      if (!tick.label.empty())
        canvas_.text({x, bottom + 15}, tick.label, {kMuted, 10.5, Align::centre});
    }
    canvas_.end();
    canvas_.text({box.x + box.width / 2, bottom + 29}, "N models", {kMuted, 10.5, Align::centre});
  }

  void references() {
    const double one = speedup_y_.at(1);
    canvas_.begin("y=1", "as fast as " + figure_.over);
    canvas_.line({speedup_box_.x, one}, {speedup_box_.right(), one}, {kText, 1.2});
    canvas_.end();
    ideal();
    published();
    if (figure_.allowances.empty()) return;
    line_of_allowances("tolerance", &Allowance::allowed, {{Tone::wrong}, 1.2, Dash::dashed});
    line_of_allowances("separate models", &Allowance::separate, {kMuted, 1, Dash::dotted});
  }

  /// y = N: what N models cost no more than one would give.
  void ideal() {
    const double from = std::max(limits_.n_low, limits_.low);
    const double to = std::min(limits_.n_high, limits_.high);
    if (from >= to) return;
    canvas_.begin("y=N", "N models in the time of one");
    canvas_.line({speedup_n_.at(from), speedup_y_.at(from)}, {speedup_n_.at(to), speedup_y_.at(to)},
                 {kRule, 1, Dash::dashed});
    canvas_.end();
    const Point end{speedup_n_.at(to), speedup_y_.at(to)};
    obstacle({{speedup_n_.at(from), speedup_y_.at(from)}, end});
    labels_.push_back({"y = N",
                       kMuted,
                       speedup_box_,
                       {{end.x + 6, end.y + 10},
                        {end.x - 46, end.y + 10},
                        {end.x - 40, end.y + 26},
                        {end.x - 46, end.y + 50}}});
  }

  void published() {
    if (!figure_.published || figure_.published->points.empty()) return;
    std::vector<Point> line;
    canvas_.begin("published", figure_.published->name);
    canvas_.push_clip(speedup_box_);
    for (const Point& p : figure_.published->points)
      line.push_back({speedup_n_.at(p.x), speedup_y_.at(p.y)});
    // A single figure holds for one N: a short dash to both sides, not a promise for all N.
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
    const double x = std::min(line.back().x + 22, speedup_box_.right()) - wide;
    labels_.push_back({figure_.published->name,
                       kMuted,
                       speedup_box_,
                       {{x, line.back().y - 8},
                        {x, line.back().y + 15},
                        {line.back().x - 28 - wide, line.back().y + 4},
                        {x, line.back().y + 34}}});
  }

  void line_of_allowances(const std::string& name, double Allowance::*what, const Stroke& stroke) {
    std::vector<Point> line;
    for (const Allowance& a : figure_.allowances)
      if (std::isfinite(a.*what) && a.*what > 0)
        line.push_back({error_n_.at(a.n), error_at(a.*what)});
    if (line.empty()) return;
    // To the edges: the line is for the eye, its values are at the Ns.
    line.insert(line.begin(), {error_box_.x, line.front().y});
    line.push_back({error_box_.right(), line.back().y});
    canvas_.begin(name, name);
    canvas_.push_clip(error_box_);
    canvas_.polyline(line, stroke);
    canvas_.pop_clip();
    canvas_.end();
    const double left = error_box_.x + 3, first = line.front().y, last = line.back().y;
    const double right = error_box_.right() - 3 - canvas_.text_width(name, {stroke.colour, kLabel});
    labels_.push_back({name,
                       stroke.colour,
                       error_box_,
                       {{left, first - 5},
                        {left, first + 12},
                        {right, last - 5},
                        {right, last + 12},
                        {left, error_box_.bottom() - 6}}});
  }

  /// What labels should not cover: lines, as points along them.
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

  /// Where it covers least; earlier places are preferred.
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
    if (!std::isfinite(error)) return error_box_.y;
    return error_y_.at(std::clamp(error, limits_.error_low, limits_.error_high));
  }

  /// With one N alone the curves are points over each other: they stand side by side.
  double spread(const Box& box, size_t index) const {
    if (limits_.ns.size() != 1 || figure_.curves.size() < 2) return 0;
    const auto count = static_cast<double>(figure_.curves.size());
    const double step = std::min(26.0, 0.85 * box.width / count);
    return (static_cast<double>(index) - (count - 1) / 2) * step;
  }

  /// Runs of neighbouring points that are shown: a gap stays a gap.
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

  void band(const Curve& curve) {
    canvas_.begin("band " + curve.name, "");
    canvas_.push_clip(speedup_box_);
    for (const auto& run : runs(curve)) {
      std::vector<Point> upper, lower;
      for (const CurvePoint* p : run) {
        upper.push_back({speedup_n_.at(p->n), speedup_y_.at(p->high.value_or(*p->value))});
        lower.push_back({speedup_n_.at(p->n), speedup_y_.at(p->low.value_or(*p->value))});
      }
      if (run.size() > 1) canvas_.band(upper, lower, series_colour(curve.style, 0.16));
    }
    canvas_.pop_clip();
    canvas_.end();
  }

  void speedups(const Curve& curve, size_t index) {
    const double aside = spread(speedup_box_, index);
    const Colour colour = series_colour(curve.style);
    canvas_.begin("curve " + curve.name, curve.name);
    for (const auto& run : runs(curve)) {
      std::vector<Point> line;
      for (const CurvePoint* p : run)
        line.push_back({speedup_n_.at(p->n) + aside, speedup_y_.at(*p->value)});
      obstacle(line);
      canvas_.push_clip(speedup_box_);
      if (run.size() > 1) {
        canvas_.polyline(line, {colour, 1.8, series_dash(curve.style)});
      } else {  // a band of one point is a bar
        canvas_.line({line[0].x, speedup_y_.at(run[0]->high.value_or(*run[0]->value))},
                     {line[0].x, speedup_y_.at(run[0]->low.value_or(*run[0]->value))},
                     {series_colour(curve.style, 0.45), 3});
      }
      canvas_.pop_clip();
      for (size_t i = 0; i < run.size(); ++i) {
        const bool crossover =
            curve.crossover && static_cast<double>(*curve.crossover) == run[i]->n;
        point(line[i], curve, *run[i]);
        if (!crossover) continue;
        canvas_.begin("crossover", fmt::format("{}: faster from N={}", curve.name, run[i]->n));
        canvas_.marker(line[i], Shape2D::ring, 2 * kMarker, colour);
        canvas_.end();
      }
    }
    canvas_.end();
  }

  void point(Point at, const Curve& curve, const CurvePoint& p) {
    canvas_.begin("point", p.about);
    canvas_.marker(at, series_shape(curve.style), kMarker, series_colour(curve.style));
    canvas_.end();
  }

  void cross(Point at, const Curve& curve, const CurvePoint& p) {
    canvas_.begin("incorrect", p.about);
    canvas_.marker(at, Shape2D::cross, kMarker + 1, series_colour(curve.style));
    canvas_.end();
  }

  void errors(const Curve& curve, size_t index) {
    const double aside = spread(error_box_, index);
    std::vector<Point> line;
    for (const CurvePoint& p : curve.points)
      if (p.error) line.push_back({error_n_.at(p.n) + aside, error_at(*p.error)});
    if (line.empty()) return;
    obstacle(line);
    canvas_.begin("error " + curve.name, curve.name);
    if (line.size() > 1)
      canvas_.polyline(line, {series_colour(curve.style), 1.4, series_dash(curve.style)});
    size_t i = 0;
    for (const CurvePoint& p : curve.points) {
      if (!p.error) continue;
      if (p.incorrect)
        cross(line[i], curve, p);
      else
        point(line[i], curve, p);
      ++i;
    }
    canvas_.end();
  }

  /// What is incorrect has no speedup: its crosses stand in a lane of their own below the plot.
  void crosses() {
    const double y = speedup_box_.bottom() + kLane / 2;
    canvas_.text({speedup_box_.x - 4, y + 3}, "incorrect", {{Tone::wrong}, 9.5, Align::right});
    for (const double n : limits_.ns) {
      std::vector<std::pair<const Curve*, const CurvePoint*>> here;
      for (const Curve& curve : figure_.curves)
        for (const CurvePoint& p : curve.points)
          if (p.incorrect && p.n == n) here.emplace_back(&curve, &p);
      for (size_t i = 0; i < here.size(); ++i) {
        const double aside =
            (static_cast<double>(i) - (static_cast<double>(here.size()) - 1) / 2) * 11;
        cross({speedup_n_.at(n) + aside, y}, *here[i].first, *here[i].second);
      }
    }
  }

  void legend() {
    std::vector<Entry> entries;
    for (const Curve& curve : figure_.curves) {
      Entry entry{&curve, nullptr};
      for (const CurvePoint& p : curve.points)
        if (p.value) entry.last = &p;
      entry.wanted = entry.last ? speedup_y_.at(*entry.last->value) : legend_.bottom();
      entries.push_back(entry);
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.wanted < b.wanted; });
    const bool two_lines = entries.size() <= 7;
    const double height = two_lines ? 31 : 18;
    spread_out(entries, height, legend_.y + 8, legend_.bottom() - (two_lines ? 18 : 4));
    for (const Entry& e : entries) legend_entry(e, two_lines);
  }

  /// Entries that would overlap become a block around the middle of where they want to be.
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
    const Colour colour = series_colour(curve.style);
    const double x = legend_.x + 6;
    if (e.last && e.last->n == limits_.ns.back() && limits_.ns.size() > 1) {
      const Point from{speedup_n_.at(e.last->n) + 7, speedup_y_.at(*e.last->value)};
      canvas_.polyline({from, {speedup_box_.right() + 4, from.y}, {x - 4, e.y}},
                       {series_colour(curve.style, 0.55), 0.8});
    }
    canvas_.begin("legend", curve.name);
    canvas_.line({x, e.y}, {x + 34, e.y}, {colour, 1.8, series_dash(curve.style)});
    canvas_.marker({x + 17, e.y}, series_shape(curve.style), kMarker, colour);
    const TextStyle name{kText, 11.5, Align::left, curve.chosen};
    const double room = legend_.right() - x - 41;
    canvas_.text({x + 41, e.y + 4}, shorten(canvas_, curve.name, name, room), name);
    if (two_lines) {
      const TextStyle small{kMuted, 10};
      canvas_.text({x + 41, e.y + 16.5}, shorten(canvas_, summary(e), small, room + 4), small);
    }
    canvas_.end();
  }

  std::string summary(const Entry& e) const {
    if (!e.last) {
      const bool wrong = std::any_of(e.curve->points.begin(), e.curve->points.end(),
                                     [](const CurvePoint& p) { return p.incorrect; });
      return wrong ? "incorrect" : "no times";
    }
    std::string value = short_number(*e.last->value) + "×";
    if (e.last->n != limits_.ns.back()) value += fmt::format(" at N={}", e.last->n);
    if (!e.curve->crossover) return value;
    return fmt::format("{}, faster from {}", value, *e.curve->crossover);
  }

  double notes(double y) {
    const TextStyle small{kMuted, 10.5};
    for (const std::string& note : figure_.notes)
      for (const std::string& line : wrap(canvas_, note, small, width_ - 20)) {
        canvas_.text({x_ + 10, y + 10}, line, small);
        y += 15;
      }
    return y + 12;
  }

  Canvas& canvas_;
  const Figure& figure_;
  const Limits& limits_;
  double x_, top_, width_, lane_ = 0;
  Box speedup_box_, legend_, error_box_;
  LogScale speedup_y_, error_y_, speedup_n_, error_n_;
  std::vector<Point> obstacles_;
  std::vector<Label> labels_;
};

}  // namespace

double draw(Canvas& canvas, const Figure& figure, const Limits& limits, double x, double y,
            double width) {
  return Drawing(canvas, figure, limits, x, y, width).run();
}

}  // namespace wide
