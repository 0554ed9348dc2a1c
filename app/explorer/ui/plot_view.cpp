#include "app/explorer/ui/plot_view.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

namespace wide {
namespace {

constexpr float kReach = 9;  // units: the largest distance from the mouse to a point

bool contains(const Box& box, Point p) {
  return p.x >= box.x && p.x <= box.right() && p.y >= box.y && p.y <= box.bottom();
}

/// Moves both ends of an axis by the share `by` of its length.
void shift(double* low, double* high, double by) {
  const double factor = std::pow(*high / *low, by);
  *low *= factor;
  *high *= factor;
}

PickedPoint point_of(const DrawnMark& mark) {
  return {mark.curve->strategy, mark.curve->group, static_cast<int64_t>(mark.point->n)};
}

/// Makes an axis `factor` times as long around `centre`.
void stretch(double* low, double* high, double centre, double factor) {
  const double below = std::pow(centre / *low, factor), above = std::pow(*high / centre, factor);
  if (std::log(below * above) < 0.02 || std::log(below * above) > 60) return;
  *low = centre / below;
  *high = centre * above;
}

}  // namespace

const DrawnMark* PlotView::marks(Ui& ui, const DrawCanvas& canvas, const DrawnFigure& drawn,
                                 const std::string& axis,
                                 const std::optional<PickedPoint>& selected) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const bool over = ImGui::IsItemHovered();
  const float reach = ui.px(kReach);
  float best = reach * reach;
  const DrawnMark* nearest = nullptr;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  size_t noted = 0;
  for (const DrawnMark& mark : drawn.marks) {
    const ImVec2 at = canvas.px(mark.at);
    const float x = mouse.x - at.x, y = mouse.y - at.y;
    if (over && x * x + y * y < best) {
      best = x * x + y * y;
      nearest = &mark;
    }
    if (selected == point_of(mark)) {
      list.AddCircle(at, ui.px(8.5f), colour(ui.theme().plot.text), 0, ui.px(2));
      list.AddCircle(at, ui.px(6.5f), colour(ui.theme().plot.paper), 0, ui.px(1));
    }
    constexpr size_t kNoted = 2000;  // the most points noted for scripts
    if (noted++ > kNoted) continue;
    const char* side = mark.side == DrawnMark::Side::value  ? ""
                       : mark.side == DrawnMark::Side::lane ? "cross "
                       : mark.point->incorrect              ? "incorrect "
                                                            : "error of ";
    ui.note(ItemKind::mark, fmt::format("{}{} {}={}", side, mark.curve->name, axis, mark.point->n),
            {at.x - ui.px(3), at.y - ui.px(3)}, {at.x + ui.px(3), at.y + ui.px(3)});
  }
  return nearest;
}

void PlotView::legend_input(const DrawCanvas& canvas, const Figure& part,
                            const DrawnFigure& drawn) {
  const ImGuiIO& io = ImGui::GetIO();
  if (!ImGui::IsItemHovered()) return;
  const Point mouse = canvas.unit(io.MousePos);
  for (const auto& [name, box] : drawn.legend) {
    if (!contains(box, mouse)) continue;
    next_lit_ = name;
    ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
    if (ImGui::IsMouseDoubleClicked(0)) {
      hidden_.clear();
      for (const Curve& c : part.curves)
        if (c.name != name) hidden_.insert(c.name);
    } else if (ImGui::IsMouseClicked(0)) {
      if (!hidden_.erase(name)) hidden_.insert(name);
    }
  }
}

void PlotView::axes_input(const DrawCanvas& canvas, const FigureGeometry& g) {
  const ImGuiIO& io = ImGui::GetIO();
  const Point mouse = canvas.unit(io.MousePos);
  const bool in_value = contains(g.value, mouse), in_error = contains(g.error, mouse);
  if (!ImGui::IsItemHovered() || (!in_value && !in_error)) return;
  const Box& box = in_value ? g.value : g.error;
  const LogScale &x = in_value ? g.value_n : g.error_n, &y = in_value ? g.value_y : g.error_y;
  next_cursor_n_ = x.value_at(mouse.x);
  const auto axes = [&](Limits& l) {
    return in_value ? std::pair(&l.low, &l.high) : std::pair(&l.error_low, &l.error_high);
  };
  if (io.MouseWheel != 0) {
    if (!zoom_) zoom_ = limits_;
    const double factor = std::pow(0.85, io.MouseWheel);
    stretch(&zoom_->n_low, &zoom_->n_high, x.value_at(mouse.x), factor);
    stretch(axes(*zoom_).first, axes(*zoom_).second, y.value_at(mouse.y), factor);
  }
  if (ImGui::IsMouseDoubleClicked(0)) zoom_.reset();
  const bool boxing = ImGui::IsMouseDragging(1) || (io.KeyShift && ImGui::IsMouseDragging(0));
  if (boxing && !box_from_) box_from_ = io.MouseClickedPos[ImGui::IsMouseDragging(1) ? 1 : 0];
  if (!boxing && box_from_) {
    const Point a = canvas.unit(*box_from_);
    if (contains(box, a) && std::abs(a.x - mouse.x) > 6 && std::abs(a.y - mouse.y) > 6) {
      Limits next = limits_;
      next.n_low = x.value_at(std::min(a.x, mouse.x));
      next.n_high = x.value_at(std::max(a.x, mouse.x));
      *axes(next).first = y.value_at(std::max(a.y, mouse.y));
      *axes(next).second = y.value_at(std::min(a.y, mouse.y));
      zoom_ = next;
    }
    box_from_.reset();
  }
  if (!boxing && ImGui::IsMouseDragging(0) && (io.MouseDelta.x != 0 || io.MouseDelta.y != 0)) {
    if (!zoom_) zoom_ = limits_;
    const Point moved{io.MouseDelta.x, io.MouseDelta.y};
    const double scale = canvas.px({1, 0}).x - canvas.px({0, 0}).x;
    shift(&zoom_->n_low, &zoom_->n_high, -moved.x / (scale * box.width));
    shift(axes(*zoom_).first, axes(*zoom_).second, moved.y / (scale * box.height));
  }
}

/// Draws the cursor at the same N in both plots.
void PlotView::cursor(Ui& ui, const DrawCanvas& canvas, const FigureGeometry& g) {
  if (cursor_n_ <= 0 || limits_.ns.empty()) return;
  const double n = *std::min_element(limits_.ns.begin(), limits_.ns.end(), [&](double a, double b) {
    return std::abs(std::log(a / cursor_n_)) < std::abs(std::log(b / cursor_n_));
  });
  if (n < limits_.n_low || n > limits_.n_high) return;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  for (const auto& [box, scale] : {std::pair(g.value, g.value_n), {g.error, g.error_n}}) {
    if (box.width <= 0) continue;
    const float x = std::floor(canvas.px({scale.at(n), 0}).x) + 0.5f;
    list.AddLine({x, canvas.px({0, box.y}).y}, {x, canvas.px({0, box.bottom()}).y},
                 colour(ui.theme().accent, 0.5), 1);
  }
}

std::optional<PickedPoint> PlotView::draw(Ui& ui, const Figure& figure,
                                          const std::optional<PickedPoint>& selected,
                                          const std::function<void(const PickedPoint&)>& about) {
  const std::string of =
      fmt::format("{}|{}|{}", figure.title, figure.subtitle, static_cast<int>(figure.measure));
  if (of != of_) {
    zoom_.reset();
    hidden_.clear();
  }
  of_ = of;
  limits_ = limits_of(figure);
  if (zoom_) {
    zoom_->ns = limits_.ns;
    zoom_->incorrect = limits_.incorrect;
    limits_ = *zoom_;
  }
  lit_ = next_lit_;
  cursor_n_ = next_cursor_n_;
  next_lit_.clear();
  next_cursor_n_ = 0;
  std::string selected_name;
  for (const Curve& curve : figure.curves)
    if (selected && curve.strategy == selected->strategy && curve.group == selected->mode)
      selected_name = curve.name;
  std::optional<PickedPoint> picked;
  const std::vector<Figure> parts = split(figure);
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const double scale = ui.scale(), width = std::max(360.0, room.x / scale);
  const ImVec2 top = ImGui::GetCursorScreenPos();
  int id = 0;
  for (const Figure& part : parts) {
    const double columns = std::max(1.0, std::floor((width - 20) / 250));
    const double legend = 20 * std::ceil(static_cast<double>(part.curves.size()) / columns) + 12;
    const double spare = room.y / scale - legend - 116 - (limits_.incorrect ? 20 : 0);
    const double plot = parts.size() > 1 ? 210 : std::clamp(spare, 130.0, 640.0);
    const FigureGeometry g = geometry_of(limits_, 0, 0, width, plot, true);
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    DrawCanvas canvas(ui, *ImGui::GetWindowDrawList(), origin);
    const DrawnFigure drawn =
        wide::draw(canvas, part, limits_, g, {hidden_, lit_, selected_name, false});
    ImGui::InvisibleButton(
        fmt::format("plot##{}", id++).c_str(),
        {static_cast<float>(width * scale), static_cast<float>(drawn.height * scale)},
        ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
    ImGui::SetItemUsingMouseWheel();
    ui.note_last(ItemKind::area, "plot");
    for (const auto& [name, box] : drawn.legend)
      ui.note(ItemKind::mark, "legend " + name, canvas.px({box.x, box.y + 5}),
              canvas.px({box.x + 34, box.bottom() - 5}));
    cursor(ui, canvas, g);
    const DrawnMark* nearest =
        marks(ui, canvas, drawn, part.axis.empty() ? "N" : part.axis, selected);
    legend_input(canvas, part, drawn);
    axes_input(canvas, g);
    if (nearest) {
      next_lit_ = nearest->curve->name;
      next_cursor_n_ = nearest->point->n;
      ImGui::BeginTooltip();
      ui.text(nearest->curve->name);
      ui.text(nearest->point->about);
      if (about) about(point_of(*nearest));
      ImGui::EndTooltip();
      if (ImGui::IsMouseReleased(0) && !panning_) picked = point_of(*nearest);
    }
    if (box_from_)
      ImGui::GetWindowDrawList()->AddRect(*box_from_, ImGui::GetIO().MousePos,
                                          colour(ui.theme().accent), 0, 0, ui.px(1.5f));
  }
  panning_ = ImGui::IsMouseDragging(0) || (panning_ && ImGui::IsMouseDown(0));
  const ImVec2 end = ImGui::GetCursorScreenPos();
  box_ = {top.x, top.y, room.x, end.y - top.y};
  return picked;
}

}  // namespace wide
