#pragma once
#include <string>
#include <vector>

// What plots draw on: an SVG file or a window. Knows no report, no LibTorch and no window.
namespace wide {

/// In pixels at 1:1, x to the right, y down.
struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  bool operator==(const Box&) const = default;
};

/// The meaning of a colour. The canvas chooses the colour, for light and dark themes.
enum class Tone { paper, text, muted, grid, rule, wrong, series };

struct Colour {
  Tone tone = Tone::text;
  int series = 0;  // of Tone::series: any number from 0, repeating after kSeriesColours
  double opacity = 1;
};
inline constexpr int kSeriesColours = 12;
inline Colour series_colour(int series, double opacity = 1) {
  return {Tone::series, series, opacity};
}

enum class Dash { solid, dashed, dotted, dash_dot };
struct Stroke {
  Colour colour;
  double width = 1;
  Dash dash = Dash::solid;
};

enum class Shape2D { circle, square, triangle, diamond, triangle_down, pentagon, cross, ring };

enum class Align { left, centre, right };
struct TextStyle {
  Colour colour;
  double size = 11;
  Align align = Align::left;
  bool bold = false;
  bool halo = false;  // with a rim in the background's colour, to be readable across lines
};

class Canvas {
 public:
  virtual ~Canvas() = default;
  virtual void line(Point from, Point to, const Stroke& stroke) = 0;
  virtual void polyline(const std::vector<Point>& points, const Stroke& stroke) = 0;
  /// The area between two curves over the same x.
  virtual void band(const std::vector<Point>& upper, const std::vector<Point>& lower,
                    const Colour& colour) = 0;
  /// `size` is the width. A cross and a ring are strokes, the others are filled.
  virtual void marker(Point at, Shape2D shape, double size, const Colour& colour) = 0;
  /// Draws one line of text; `at` is on the baseline. The canvas replaces characters that its font
  /// lacks.
  virtual void text(Point at, const std::string& text, const TextStyle& style) = 0;
  virtual double text_width(const std::string& text, const TextStyle& style) const = 0;
  virtual void push_clip(const Box& box) = 0;
  virtual void pop_clip() = 0;
  /// Groups what is drawn until `end`: `kind` is for programs, `about` is the tooltip. A canvas
  /// without groups ignores this.
  virtual void begin(const std::string& kind, const std::string& about) = 0;
  virtual void end() = 0;
};

/// Colour, shape and dash of curve number `series`. Neighbours among the first dozen differ in each
/// of the three; any two curves differ in at least one.
inline Shape2D series_shape(int series) {
  constexpr Shape2D kShapes[] = {Shape2D::circle,  Shape2D::square,        Shape2D::triangle,
                                 Shape2D::diamond, Shape2D::triangle_down, Shape2D::pentagon};
  return kShapes[series % 6];
}
inline Dash series_dash(int series) {
  constexpr Dash kDashes[] = {Dash::solid, Dash::dashed, Dash::dotted, Dash::dash_dot};
  return kDashes[series % 4];
}

}  // namespace wide
