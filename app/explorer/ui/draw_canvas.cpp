#include "app/explorer/ui/draw_canvas.h"

#include <algorithm>
#include <cmath>

namespace wide {
namespace {

constexpr size_t kMany = 2000;
constexpr int kPiece = 4000;  // vertices of one call must fit 16 bits

}  // namespace

std::vector<ImVec2> decimate(const std::vector<ImVec2>& points) {
  if (points.size() <= kMany) return points;
  std::vector<ImVec2> kept = {points.front()};
  for (size_t i = 1; i + 1 < points.size();) {
    const float column = std::floor(points[i].x);
    size_t low = i, high = i;
    for (; i + 1 < points.size() && std::floor(points[i].x) == column; ++i) {
      if (points[i].y < points[low].y) low = i;
      if (points[i].y > points[high].y) high = i;
    }
    kept.push_back(points[std::min(low, high)]);
    if (low != high) kept.push_back(points[std::max(low, high)]);
  }
  kept.push_back(points.back());
  return kept;
}

DrawCanvas::DrawCanvas(Ui& ui, ImDrawList& list, ImVec2 origin)
    : ui_(ui), list_(list), origin_(origin), scale_(ui.scale()) {}

ImVec2 DrawCanvas::px(Point p) const {
  return {origin_.x + static_cast<float>(p.x) * scale_,
          origin_.y + static_cast<float>(p.y) * scale_};
}

Point DrawCanvas::unit(ImVec2 p) const {
  return {(p.x - origin_.x) / scale_, (p.y - origin_.y) / scale_};
}

ImU32 DrawCanvas::tone(const Colour& c) const {
  return colour(rgb(ui_.theme().plot, c), c.opacity);
}

void DrawCanvas::stroke(const ImVec2* points, int count, const Stroke& s) {
  const float width = std::max(1.0f, static_cast<float>(s.width) * scale_);
  if (s.dash == Dash::solid) {
    for (int from = 0; from + 1 < count; from += kPiece - 1)
      list_.AddPolyline(points + from, std::min(kPiece, count - from), tone(s.colour), 0, width);
    return;
  }
  // Lengths on, off, on, off, in units, repeated along the line.
  static constexpr float kPatterns[3][4] = {
      {7, 4, 7, 4}, {1.8f, 3.5f, 1.8f, 3.5f}, {8, 3.5f, 1.8f, 3.5f}};
  const float* pattern = kPatterns[static_cast<int>(s.dash) - 1];
  std::vector<ImVec2> dash;
  int phase = 0;
  float left = pattern[0] * scale_;
  const auto flush = [&] {
    if (dash.size() > 1)
      list_.AddPolyline(dash.data(), static_cast<int>(dash.size()), tone(s.colour), 0, width);
    dash.clear();
  };
  dash.push_back(points[0]);
  for (int i = 1; i < count; ++i) {
    ImVec2 at = points[i - 1];
    const ImVec2 to = points[i];
    float rest = std::hypot(to.x - at.x, to.y - at.y);
    while (rest > 0) {
      const float step = std::min(rest, left), share = step / rest;
      at = {at.x + (to.x - at.x) * share, at.y + (to.y - at.y) * share};
      rest -= step;
      left -= step;
      if (phase % 2 == 0) dash.push_back(at);
      if (left > 0) break;
      if (phase % 2 == 0) flush();
      phase = (phase + 1) % 4;
      left = pattern[phase] * scale_;
      if (phase % 2 == 0) dash.assign(1, at);
    }
  }
  flush();
}

void DrawCanvas::line(Point from, Point to, const Stroke& s) {
  ImVec2 ends[2] = {px(from), px(to)};
  // A thin line along an axis is sharp on whole pixels.
  if (s.width <= 1 && (ends[0].x == ends[1].x || ends[0].y == ends[1].y))
    for (ImVec2& p : ends) p = {std::floor(p.x) + 0.5f, std::floor(p.y) + 0.5f};
  stroke(ends, 2, s);
}

void DrawCanvas::polyline(const std::vector<Point>& points, const Stroke& s) {
  std::vector<ImVec2> all;
  all.reserve(points.size());
  for (const Point& p : points) all.push_back(px(p));
  all = decimate(all);
  if (all.size() > 1) stroke(all.data(), static_cast<int>(all.size()), s);
}

void DrawCanvas::band(const std::vector<Point>& upper, const std::vector<Point>& lower,
                      const Colour& c) {
  const size_t step = std::max<size_t>(1, upper.size() / kMany);
  const ImDrawListFlags flags = list_.Flags;
  // Without antialiasing, since smoothed edges of neighbouring pieces would show.
  list_.Flags &= ~ImDrawListFlags_AntiAliasedFill;
  for (size_t i = 0; i + 1 < upper.size(); i += step) {
    const size_t next = std::min(i + step, upper.size() - 1);
    list_.AddQuadFilled(px(upper[i]), px(upper[next]), px(lower[next]), px(lower[i]), tone(c));
  }
  list_.Flags = flags;
}

void DrawCanvas::marker(Point at, Shape2D shape, double size, const Colour& c) {
  const ImVec2 centre = px(at);
  const float r = static_cast<float>(size) / 2 * scale_;
  if (shape == Shape2D::ring)
    return list_.AddCircle(centre, r, tone(c), 0, std::max(1.0f, 1.5f * scale_));
  if (shape == Shape2D::cross) {
    for (const float sign : {1.0f, -1.0f})
      list_.AddLine({centre.x - r, centre.y - sign * r}, {centre.x + r, centre.y + sign * r},
                    tone(c), std::max(1.5f, 2.2f * scale_));
    return;
  }
  // Regular polygons: their radius, and how far the first corner is turned from the top.
  constexpr float kTurn = static_cast<float>(M_PI);
  static const struct {
    Shape2D shape;
    int corners;
    float radius, turn;
  } kPolygons[] = {{Shape2D::circle, 8, 1.05f, 0.39f},       {Shape2D::square, 4, 1.25f, kTurn / 4},
                   {Shape2D::diamond, 4, 1.35f, 0},          {Shape2D::triangle, 3, 1.4f, 0},
                   {Shape2D::triangle_down, 3, 1.4f, kTurn}, {Shape2D::pentagon, 5, 1.2f, 0}};
  for (const auto& polygon : kPolygons) {
    if (polygon.shape != shape) continue;
    ImVec2 points[8];
    for (int i = 0; i < polygon.corners; ++i) {
      const float angle =
          polygon.turn + 2 * kTurn * static_cast<float>(i) / static_cast<float>(polygon.corners);
      points[i] = {centre.x + polygon.radius * r * std::sin(angle),
                   centre.y - polygon.radius * r * std::cos(angle)};
    }
    list_.AddConvexPolyFilled(points, polygon.corners, tone(c));
    // A rim in the paper's colour separates markers from their line.
    list_.AddPolyline(points, polygon.corners, tone({Tone::paper, 0, c.opacity}),
                      ImDrawFlags_Closed, std::max(1.0f, scale_ * 0.8f));
  }
}

ImFont* DrawCanvas::font(const TextStyle& style) const {
  const Fonts& f = ui_.fonts();
  if (style.size < 13) return style.bold ? f.small_bold : f.small;
  return style.bold ? f.bold : f.body;
}

double DrawCanvas::text_width(const std::string& text, const TextStyle& style) const {
  ImFont* f = font(style);
  return f->CalcTextSizeA(f->FontSize, FLT_MAX, 0, text.c_str()).x / scale_;
}

void DrawCanvas::text(Point at, const std::string& text, const TextStyle& style) {
  ImFont* f = font(style);
  const ImVec2 size = f->CalcTextSizeA(f->FontSize, FLT_MAX, 0, text.c_str());
  ImVec2 p = px(at);
  if (style.align == Align::centre) p.x -= size.x / 2;
  if (style.align == Align::right) p.x -= size.x;
  p = {std::round(p.x), std::round(p.y - f->Ascent)};
  if (style.halo) {
    const ImU32 paper = tone({Tone::paper});
    for (const ImVec2 d : {ImVec2{-1, 0}, {1, 0}, {0, -1}, {0, 1}, {-1, -1}, {1, 1}})
      list_.AddText(f, f->FontSize, {p.x + d.x * scale_, p.y + d.y * scale_}, paper, text.c_str());
  }
  list_.AddText(f, f->FontSize, p, tone(style.colour), text.c_str());
  // Notes only the letters' height: space above and below may overlap neighbours.
  ui_.note(ItemKind::text, text, {p.x, p.y + 0.15f * size.y}, {p.x + size.x, p.y + 0.85f * size.y});
}

void DrawCanvas::push_clip(const Box& box) {
  list_.PushClipRect(px({box.x, box.y}), px({box.right(), box.bottom()}), true);
}
void DrawCanvas::pop_clip() { list_.PopClipRect(); }

}  // namespace wide
