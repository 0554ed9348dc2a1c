#include "app/explorer/ui/compare_plot.h"

#include <algorithm>
#include <cmath>

#include "app/explorer/ui/draw_canvas.h"
#include "data/plot/measure.h"
#include "data/plot/scale.h"

namespace wide {
namespace {

constexpr double kSpotReach = 8;  // units: the largest distance from the mouse to a point
constexpr Colour kSpotMuted{Tone::muted};

struct SpotAxes {
  Box plot;
  LogScale x, y;
};

SpotAxes spot_axes(const std::vector<ComparedSpot>& spots, double width, double height) {
  double low = HUGE_VAL, high = 0;
  for (const ComparedSpot& s : spots)
    for (const double ns : {s.before_ns, s.after_ns}) {
      if (!(ns > 0)) continue;
      low = std::min(low, ns);
      high = std::max(high, ns);
    }
  if (!(high > 0)) low = 1, high = 10;
  low /= 1.3;
  high *= 1.3;
  SpotAxes axes;
  axes.plot = {58, 20, std::max(60.0, width - 70), std::max(40.0, height - 56)};
  axes.x = {low, high, axes.plot.x, axes.plot.right()};
  axes.y = {low, high, axes.plot.bottom(), axes.plot.y};
  return axes;
}

void draw_spot_axes(DrawCanvas& canvas, const SpotAxes& axes) {
  const auto label = [](double ns) { return value_text(Measure::time, ns); };
  const Box& plot = axes.plot;
  for (const Tick& tick : value_ticks(axes.y, 24, label)) {
    const double y = axes.y.at(tick.value);
    canvas.line({plot.x, y}, {plot.right(), y}, {{Tone::grid}, 1});
    canvas.text({plot.x - 6, y + 3.5}, tick.label, {kSpotMuted, 10.5, Align::right});
  }
  for (const Tick& tick : value_ticks(axes.x, 64, label)) {
    const double x = axes.x.at(tick.value);
    canvas.line({x, plot.y}, {x, plot.bottom()}, {{Tone::grid}, 1});
    // Keeps labels at the ends inside the plot, else they would be cut off.
    const double half = canvas.text_width(tick.label, {kSpotMuted, 10.5}) / 2;
    if (x + half <= plot.right() + 10)
      canvas.text({x, plot.bottom() + 14}, tick.label, {kSpotMuted, 10.5, Align::centre});
  }
  canvas.line({axes.x.at(axes.x.low), axes.y.at(axes.y.low)},
              {axes.x.at(axes.x.high), axes.y.at(axes.y.high)}, {{Tone::text}, 1.2});
  canvas.text({plot.x + plot.width / 2, plot.bottom() + 30}, "time before",
              {kSpotMuted, 10.5, Align::centre});
  canvas.text({plot.x, plot.y - 8}, "time after", {kSpotMuted, 10.5});
  const TextStyle right{kSpotMuted, 10.5, Align::right};
  const std::string below = "below the line: less time than before";
  if (canvas.text_width(below, right) < plot.width - 70)
    canvas.text({plot.right(), plot.y - 8}, below, right);
}

Colour spot_colour(const ComparedSpot& spot) {
  if (spot.verdict == "SLOWER") return {Tone::wrong};
  return spot.verdict == "FASTER" ? series_colour(2) : kSpotMuted;
}

}  // namespace

std::optional<size_t> draw_compare_plot(Ui& ui, const std::vector<ComparedSpot>& spots, float width,
                                        float height) {
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  DrawCanvas canvas(ui, *ImGui::GetWindowDrawList(), origin);
  const SpotAxes axes = spot_axes(spots, static_cast<double>(width / ui.scale()),
                                  static_cast<double>(height / ui.scale()));
  draw_spot_axes(canvas, axes);
  ImGui::InvisibleButton("before and after", {std::max(1.0f, width), std::max(1.0f, height)});
  const bool over = ImGui::IsItemHovered();
  ui.note_last(ItemKind::area, "before and after");
  const Point mouse = canvas.unit(ImGui::GetIO().MousePos);
  std::optional<size_t> nearest;
  double best = kSpotReach;
  constexpr size_t kNoted = 2000;  // the most points noted for scripts
  for (size_t i = 0; i < spots.size(); ++i) {
    const ComparedSpot& s = spots[i];
    if (!(s.before_ns > 0) || !(s.after_ns > 0)) continue;
    const Point at{axes.x.at(s.before_ns), axes.y.at(s.after_ns)};
    canvas.marker(at, Shape2D::circle, s.selected ? 10 : 6, spot_colour(s));
    if (s.selected) canvas.marker(at, Shape2D::ring, 14, {Tone::text});
    const ImVec2 px = canvas.px(at);
    if (i < kNoted)
      ui.note(ItemKind::mark, "compared " + s.name, {px.x - ui.px(3), px.y - ui.px(3)},
              {px.x + ui.px(3), px.y + ui.px(3)});
    const double far = std::hypot(at.x - mouse.x, at.y - mouse.y);
    if (!over || far >= best) continue;
    best = far;
    nearest = i;
  }
  if (!nearest) return std::nullopt;
  ImGui::BeginTooltip();
  ui.text(spots[*nearest].name);
  ui.text(spots[*nearest].about);
  ImGui::EndTooltip();
  return ImGui::IsMouseReleased(0) ? nearest : std::nullopt;
}

}  // namespace wide
