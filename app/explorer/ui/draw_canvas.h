#pragma once
#include <imgui.h>

#include "app/explorer/ui/ui.h"
#include "data/plot/canvas.h"

namespace wide {

/// The window's canvas: draws into an ImGui list. Coordinates in units are scaled by `scale` and
/// moved by `origin`.
class DrawCanvas : public Canvas {
 public:
  DrawCanvas(Ui& ui, ImDrawList& list, ImVec2 origin);

  void line(Point from, Point to, const Stroke& stroke) override;
  void polyline(const std::vector<Point>& points, const Stroke& stroke) override;
  void band(const std::vector<Point>& upper, const std::vector<Point>& lower,
            const Colour& colour) override;
  void marker(Point at, Shape2D shape, double size, const Colour& colour) override;
  void text(Point at, const std::string& text, const TextStyle& style) override;
  double text_width(const std::string& text, const TextStyle& style) const override;
  void push_clip(const Box& box) override;
  void pop_clip() override;
  void begin(const std::string&, const std::string&) override {}
  void end() override {}

  ImVec2 px(Point p) const;
  Point unit(ImVec2 px) const;

 private:
  void stroke(const ImVec2* points, int count, const Stroke& s);
  ImFont* font(const TextStyle& style) const;
  ImU32 tone(const Colour& colour) const;

  Ui& ui_;
  ImDrawList& list_;
  ImVec2 origin_;
  float scale_;
};

/// At most about two points per column of pixels, the highest and the lowest: what a line of very
/// many points looks like anyway.
std::vector<ImVec2> decimate(const std::vector<ImVec2>& points);

}  // namespace wide
