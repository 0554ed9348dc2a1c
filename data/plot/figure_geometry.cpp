#include "data/plot/figure_geometry.h"

namespace wide {
namespace {

constexpr double kLane = 20;

}  // namespace

FigureGeometry geometry_of(const Limits& limits, double x, double y, double width,
                           double plot_height, bool legend_below) {
  FigureGeometry g;
  g.x = x;
  g.top = y;
  g.width = width;
  g.legend_below = legend_below;
  const double panels = y + 66, left = x + 54, between = 50, right = x + width - 10;
  if (legend_below) {
    const double share = limits.errors ? 0.58 * (right - left - between) : right - left;
    g.value = {left, panels, share, plot_height};
    g.legend = {};
  } else {
    g.value = {left, panels, (limits.errors ? 0.42 : 0.66) * width, plot_height};
    g.legend = {g.value.right() + 16, panels, 0.22 * width, plot_height};
  }
  const double second = legend_below ? g.value.right() + between : g.legend.right() + 44;
  g.error =
      limits.errors ? Box{second, panels, right - second, plot_height} : Box{right, panels, 0, 0};
  g.lane = limits.incorrect ? kLane : 0;
  g.value_y = {limits.low, limits.high, g.value.bottom(), g.value.y};
  g.error_y = {limits.error_low, limits.error_high, g.error.bottom(), g.error.y};
  g.value_n = {limits.n_low, limits.n_high, g.value.x, g.value.right()};
  g.error_n = {limits.n_low, limits.n_high, g.error.x, g.error.right()};
  return g;
}

}  // namespace wide
