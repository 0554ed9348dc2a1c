#pragma once
#include <string>

#include "data/plot/canvas.h"

namespace wide {

/// A canvas that becomes an SVG document. Colours are classes of one style sheet, so that the
/// picture follows the viewer's light or dark preference.
class SvgCanvas : public Canvas {
 public:
  SvgCanvas(double width, double height) : width_(width), height_(height) {}

  void line(Point from, Point to, const Stroke& stroke) override;
  void polyline(const std::vector<Point>& points, const Stroke& stroke) override;
  void band(const std::vector<Point>& upper, const std::vector<Point>& lower,
            const Colour& colour) override;
  void marker(Point at, Shape2D shape, double size, const Colour& colour) override;
  void text(Point at, const std::string& text, const TextStyle& style) override;
  double text_width(const std::string& text, const TextStyle& style) const override;
  void push_clip(const Box& box) override;
  void pop_clip() override;
  void begin(const std::string& kind, const std::string& about) override;
  void end() override;

  /// Everything below `y` is cut off: for pictures whose height is known once they are drawn.
  void set_height(double height) { height_ = height; }
  /// The picture alone, as a file.
  std::string document(const std::string& title) const;
  /// The picture as an element of a page that has `style()` once.
  std::string element(const std::string& title) const;
  static std::string style();

 private:
  double width_, height_;
  std::string body_;
};

}  // namespace wide
