#pragma once
#include <cstdint>
#include <vector>

#include "data/plot/canvas.h"

namespace wide {

/// Counts how many of very many curves pass through each pixel. Inside one column of pixels a curve
/// covers the range from its lowest to its highest point, so that no peak is lost. Appending to a
/// curve gives the same counts as drawing it at once.
class CurveDensity {
 public:
  CurveDensity(int width, int height) : width_(width), height_(height) {
    counts_.resize(static_cast<size_t>(width) * static_cast<size_t>(height));
  }
  int width() const { return width_; }
  int height() const { return height_; }

  /// Draws the part of `points` (pixels, ascending in x) that earlier calls for `curve` have not
  /// drawn. Points that are not finite leave a gap. `dashed`: in dashes along the columns.
  void extend(size_t curve, const std::vector<Point>& points, bool dashed);
  uint16_t at(int x, int y) const {
    return counts_[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)];
  }

 private:
  /// The end of a curve. The pixels of its last column are drawn again when it grows.
  struct Pen {
    size_t used = 0;  // how many of its points are drawn
    int column = -1;
    double low = 0, high = 0;
  };
  void cover(size_t curve, int column, double low, double high, bool dashed);
  void put(size_t curve, int sign, bool dashed);

  int width_, height_;
  std::vector<uint16_t> counts_;
  std::vector<Pen> pens_;
};

}  // namespace wide
