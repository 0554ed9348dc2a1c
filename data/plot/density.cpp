#include "data/plot/density.h"

#include <algorithm>
#include <cmath>

namespace wide {
namespace {

constexpr int kDashPixels = 5, kGapPixels = 3;

bool is_there(const Point& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

}  // namespace

void CurveDensity::put(size_t curve, int sign, bool dashed) {
  const Pen& pen = pens_[curve];
  if (pen.column < 0 || pen.column >= width_) return;
  // Dashes of different curves are shifted against each other.
  const int phase = pen.column + static_cast<int>(curve % 64) * kDashPixels;
  if (dashed && phase % (kDashPixels + kGapPixels) >= kDashPixels) return;
  if (pen.high < 0 || pen.low >= height_) return;
  const int top = static_cast<int>(std::max(0.0, std::floor(pen.low)));
  const int bottom = static_cast<int>(std::min(double(height_ - 1), std::floor(pen.high)));
  uint16_t* pixel = &counts_[static_cast<size_t>(top) * static_cast<size_t>(width_) +
                             static_cast<size_t>(pen.column)];
  for (int y = top; y <= bottom; ++y, pixel += width_)
    *pixel = static_cast<uint16_t>(*pixel + sign);
}

void CurveDensity::cover(size_t curve, int column, double low, double high, bool dashed) {
  Pen& pen = pens_[curve];
  if (pen.column == column) {
    pen.low = std::min(pen.low, low);
    pen.high = std::max(pen.high, high);
    return;
  }
  put(curve, 1, dashed);
  pen.column = column;
  pen.low = low;
  pen.high = high;
}

void CurveDensity::extend(size_t curve, const std::vector<Point>& points, bool dashed) {
  if (pens_.size() <= curve) pens_.resize(curve + 1);
  Pen& pen = pens_[curve];
  if (pen.used >= points.size()) return;
  put(curve, -1, dashed);
  for (size_t i = pen.used; i < points.size(); ++i) {
    const Point& to = points[i];
    if (!is_there(to)) continue;
    const bool joined = i > 0 && is_there(points[i - 1]);
    const Point from = joined ? points[i - 1] : to;
    const double first = std::max(0.0, std::floor(from.x));
    const double last = std::min(double(width_ - 1), std::floor(to.x));
    for (double column = first; column <= last; ++column) {
      const auto y_at = [&](double x) {
        if (to.x <= from.x) return to.y;
        return from.y + (to.y - from.y) * (std::clamp(x, from.x, to.x) - from.x) / (to.x - from.x);
      };
      double a = y_at(column), b = y_at(column + 1);
      if (to.x <= from.x) a = from.y;
      cover(curve, static_cast<int>(column), std::min(a, b), std::max(a, b), dashed);
    }
  }
  put(curve, 1, dashed);
  pen.used = points.size();
}

}  // namespace wide
