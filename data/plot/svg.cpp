#include "data/plot/svg.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <string_view>

#include "data/escape.h"
#include "data/plot/palette.h"

namespace wide {
namespace {

/// A number with at most two decimals, without trailing zeros.
std::string number(double value) {
  if (!std::isfinite(value)) value = 0;
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string class_of(const Colour& colour) {
  static constexpr const char* kTones[] = {"wp", "wt", "wm", "wg", "wr", "wx"};
  if (colour.tone != Tone::series) return kTones[static_cast<size_t>(colour.tone)];
  return fmt::format("w{}", colour.series % kSeriesColours);
}

std::string opacity(const char* what, const Colour& colour) {
  return colour.opacity < 1 ? fmt::format(" {}=\"{}\"", what, number(colour.opacity)) : "";
}

std::string stroke_text(const Stroke& s) {
  // Round caps would close the gaps of a dotted line if the dots were not this short.
  const char* dash = s.dash == Dash::dashed     ? " stroke-dasharray=\"7 4\""
                     : s.dash == Dash::dotted   ? " stroke-dasharray=\"1.5 3.5\""
                     : s.dash == Dash::dash_dot ? " stroke-dasharray=\"8 3.5 1.5 3.5\""
                                                : "";
  return fmt::format("class=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"{}\"{}{}",
                     class_of(s.colour), number(s.width), dash,
                     opacity("stroke-opacity", s.colour));
}

std::string points_text(const std::vector<Point>& points) {
  std::string out;
  for (const Point& p : points) out += (out.empty() ? "" : " ") + number(p.x) + "," + number(p.y);
  return out;
}

/// Widths of Helvetica in thousandths of its size, in four steps: the viewer's font is unknown, so
/// layouts leave room anyway.
double advance(char c) {
  const auto one_of = [c](std::string_view characters) {
    return characters.find(c) != std::string_view::npos;
  };
  if (c >= '0' && c <= '9') return 0.556;
  if (one_of("ijl'|")) return 0.23;
  if (one_of(" .,:;!/ftrI-()[]")) return 0.31;
  if (one_of("mwMW@%")) return 0.85;
  return c >= 'A' && c <= 'Z' ? 0.69 : 0.55;
}

}  // namespace

void SvgCanvas::line(Point from, Point to, const Stroke& stroke) {
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {}/>\n", number(from.x),
                       number(from.y), number(to.x), number(to.y), stroke_text(stroke));
}

void SvgCanvas::polyline(const std::vector<Point>& points, const Stroke& stroke) {
  body_ += fmt::format("<polyline points=\"{}\" {} stroke-linejoin=\"round\"/>\n",
                       points_text(points), stroke_text(stroke));
}

void SvgCanvas::band(const std::vector<Point>& upper, const std::vector<Point>& lower,
                     const Colour& colour) {
  std::vector<Point> outline = upper;
  outline.insert(outline.end(), lower.rbegin(), lower.rend());
  body_ += fmt::format("<polygon points=\"{}\" class=\"{}\" fill=\"currentColor\"{}/>\n",
                       points_text(outline), class_of(colour), opacity("fill-opacity", colour));
}

void SvgCanvas::marker(Point at, Shape2D shape, double size, const Colour& colour) {
  const double r = size / 2;
  const std::string fill = fmt::format("class=\"{} wk\" fill=\"currentColor\"{}", class_of(colour),
                                       opacity("fill-opacity", colour));
  if (shape == Shape2D::cross) {
    body_ += fmt::format("<path d=\"M{0} {1}L{2} {3}M{0} {3}L{2} {1}\" {4}/>\n", number(at.x - r),
                         number(at.y - r), number(at.x + r), number(at.y + r),
                         stroke_text({colour, 2.2}));
    return;
  }
  if (shape == Shape2D::circle || shape == Shape2D::ring) {
    body_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" {}/>\n", number(at.x), number(at.y),
                         number(r), shape == Shape2D::ring ? stroke_text({colour, 1.5}) : fill);
    return;
  }
  // Regular polygons: their radius, and how far the first corner is turned from the top.
  static const struct {
    Shape2D shape;
    int corners;
    double radius, turn;
  } kPolygons[] = {{Shape2D::square, 4, 1.25, M_PI / 4},
                   {Shape2D::diamond, 4, 1.3, 0},
                   {Shape2D::triangle, 3, 1.35, 0},
                   {Shape2D::triangle_down, 3, 1.35, M_PI},
                   {Shape2D::pentagon, 5, 1.2, 0}};
  for (const auto& polygon : kPolygons) {
    if (polygon.shape != shape) continue;
    std::vector<Point> points;
    for (int i = 0; i < polygon.corners; ++i) {
      const double angle = polygon.turn + 2 * M_PI * i / polygon.corners;
      points.push_back({at.x + polygon.radius * r * std::sin(angle),
                        at.y - polygon.radius * r * std::cos(angle)});
    }
    body_ += fmt::format("<polygon points=\"{}\" {}/>\n", points_text(points), fill);
  }
}

void SvgCanvas::text(Point at, const std::string& text, const TextStyle& style) {
  const char* anchor = style.align == Align::centre  ? " text-anchor=\"middle\""
                       : style.align == Align::right ? " text-anchor=\"end\""
                                                     : "";
  body_ += fmt::format(
      "<text x=\"{}\" y=\"{}\" font-size=\"{}\" class=\"{}{}\" fill=\"currentColor\"{}{}{}>{}"
      "</text>\n",
      number(at.x), number(at.y), number(style.size), class_of(style.colour),
      style.halo ? " wh" : "", anchor, style.bold ? " font-weight=\"600\"" : "",
      opacity("fill-opacity", style.colour), xml_escape(clean_text(text)));
}

double SvgCanvas::text_width(const std::string& text, const TextStyle& style) const {
  double width = 0;
  for (const char c : text)
    if ((c & 0xC0) != 0x80) width += advance(c);
  return width * style.size * (style.bold ? 1.07 : 1.0);
}

void SvgCanvas::push_clip(const Box& box) {
  // The id must be unique among all pictures of a page.
  static std::atomic<uint64_t> next{0};
  const uint64_t id = next++;
  body_ += fmt::format(
      "<clipPath id=\"wc{0}\"><rect x=\"{1}\" y=\"{2}\" width=\"{3}\" height=\"{4}\"/></clipPath>"
      "<g clip-path=\"url(#wc{0})\">\n",
      id, number(box.x), number(box.y), number(box.width), number(box.height));
}

void SvgCanvas::pop_clip() { body_ += "</g>\n"; }

void SvgCanvas::begin(const std::string& kind, const std::string& about) {
  body_ += fmt::format("<g data-kind=\"{}\">", xml_escape(clean_text(kind)));
  if (!about.empty()) body_ += fmt::format("<title>{}</title>", xml_escape(about));
  body_ += "\n";
}

void SvgCanvas::end() { body_ += "</g>\n"; }

std::string SvgCanvas::style() {
  const auto colours = [](const Palette& p) {
    std::string css;
    for (const Tone tone :
         {Tone::paper, Tone::text, Tone::muted, Tone::grid, Tone::rule, Tone::wrong})
      css += fmt::format(".{}{{color:#{:06x}}}", class_of({tone}), rgb(p, {tone}));
    css += '\n';
    for (int i = 0; i < kSeriesColours; ++i)
      css +=
          fmt::format(".{}{{color:#{:06x}}}", class_of(series_colour(i)), rgb(p, series_colour(i)));
    return css +
           fmt::format("\n.wbg{{fill:#{0:06x}}}.wh{{stroke:#{0:06x}}}.wk{{stroke:#{0:06x}}}\n",
                       p.paper);
  };
  return colours(kLight) +
         ".wh{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}.wk{stroke-width:1px}\n"
         "@media (prefers-color-scheme:dark){" +
         colours(kDark) + "}\n";
}

std::string SvgCanvas::element(const std::string& title) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\" font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, "
      "sans-serif\">\n<title>{2}</title>\n{3}</svg>\n",
      number(width_), number(height_), xml_escape(clean_text(title)), body_);
}

std::string SvgCanvas::document(const std::string& title) const {
  const std::string all = element(title);
  const size_t body = all.find("</title>\n") + 9;
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + all.substr(0, body) + "<style>\n" +
         style() + "</style>\n<rect class=\"wbg\" width=\"100%\" height=\"100%\"/>\n" +
         all.substr(body);
}

}  // namespace wide
