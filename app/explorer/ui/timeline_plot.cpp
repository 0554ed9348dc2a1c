#include "app/explorer/ui/timeline_plot.h"

#include <algorithm>
#include <cmath>

#include "app/explorer/ui/draw_canvas.h"
#include "data/plot/measure.h"
#include "data/plot/scale.h"

namespace wide {
namespace {

constexpr float kBarHeight = 15, kLaneGap = 7, kTitleHeight = 20, kTimeAxis = 22;  // units
constexpr double kShortest_ns = 50;  // the shortest visible range

float lane_height(const Lane& lane) {
  int deepest = 0;
  for (const LaneBar& bar : lane.bars) deepest = std::max(deepest, bar.depth);
  return kBarHeight * static_cast<float>(deepest + 1);
}

}  // namespace

void TimelinePlot::draw_axis(Ui& ui, const Axis& axis, ImVec2 from, ImVec2 to) {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const int most = std::max(2, static_cast<int>((axis.right - axis.left) / ui.px(84)));
  ImGui::PushFont(ui.fonts().small);
  for (const Tick& tick : linear_ticks(axis.low_ns, axis.high_ns, most)) {
    const float x = axis.at(tick.value);
    if (x < axis.left || x > axis.right) continue;
    list.AddLine({x, from.y + ui.px(kTimeAxis - 4)}, {x, to.y}, colour(ui.theme().plot.grid));
    const std::string label = value_text(Measure::time, tick.value);
    const float half = ImGui::CalcTextSize(label.c_str()).x / 2;
    if (x - half >= from.x && x + half <= to.x)
      list.AddText({x - half, from.y}, colour(ui.theme().plot.muted), label.c_str());
  }
  ImGui::PopFont();
}

void TimelinePlot::input(const Axis& axis, double end_ns, bool held) {
  const ImGuiIO& io = ImGui::GetIO();
  const auto keep = [&] {
    const double length = std::clamp(high_ns_ - low_ns_, kShortest_ns, end_ns);
    low_ns_ = std::clamp(low_ns_, 0.0, end_ns - length);
    high_ns_ = low_ns_ + length;
  };
  if (io.MouseWheel != 0) {
    const double centre = axis.ns_at(io.MousePos.x), factor = std::pow(0.8, io.MouseWheel);
    low_ns_ = centre - (centre - axis.low_ns) * factor;
    high_ns_ = centre + (axis.high_ns - centre) * factor;
    keep();
  }
  if (held && ImGui::IsMouseDragging(0) && io.MouseDelta.x != 0) {
    const double by = axis.ns_at(0) - axis.ns_at(io.MouseDelta.x);
    low_ns_ = axis.low_ns + by;
    high_ns_ = axis.high_ns + by;
    moved_ = true;
    keep();
  }
  if (ImGui::IsMouseDoubleClicked(0)) fit();
}

std::optional<PickedBar> TimelinePlot::draw(
    Ui& ui, const std::vector<Lane>& lanes, double end_ns, const std::optional<PickedBar>& selected,
    float height, const std::function<std::string(const PickedBar&)>& about) {
  end_ns = std::max(end_ns, kShortest_ns);
  float needed = ui.px(kTimeAxis), names = 0;
  ImGui::PushFont(ui.fonts().small);
  for (const Lane& lane : lanes) {
    needed += ui.px(lane_height(lane) + kLaneGap + (lane.title.empty() ? 0 : kTitleHeight));
    names = std::max(names, ui.text_width(lane.name));
  }
  ImGui::PopFont();
  // Many lanes scroll in a region of their own.
  ImGui::BeginChild("lanes", {0, std::min(height, needed + ui.px(4))}, false,
                    ImGuiWindowFlags_NoScrollWithMouse);
  const ImVec2 from = ImGui::GetCursorScreenPos();
  const ImVec2 to{from.x + std::max(ui.px(120), ImGui::GetContentRegionAvail().x), from.y + needed};
  const Axis axis{high_ns_ > 0 ? low_ns_ : 0, high_ns_ > 0 ? high_ns_ : end_ns,
                  from.x + std::min(names + ui.px(10), (to.x - from.x) / 3), to.x - ui.px(2)};
  draw_axis(ui, axis, from, to);
  ImGui::InvisibleButton("timeline", {to.x - from.x, to.y - from.y});
  ImGui::SetItemUsingMouseWheel();
  const bool over = ImGui::IsItemHovered(), held = ImGui::IsItemActive();
  const bool let_go = ImGui::IsItemDeactivated();
  if (ImGui::IsItemActivated()) moved_ = false;
  ui.note_last(ItemKind::area, "timeline");
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  std::optional<PickedBar> under;
  ImDrawList& list = *ImGui::GetWindowDrawList();
  float y = from.y + ui.px(kTimeAxis);
  size_t noted = 0;
  for (size_t l = 0; l < lanes.size(); ++l) {
    const Lane& lane = lanes[l];
    if (!lane.title.empty()) {
      const std::string title = ui.fit(lane.title, to.x - from.x);
      list.AddText({from.x, y + ui.px(2)}, colour(ui.theme().plot.text), title.c_str());
      ui.note(ItemKind::text, title, {from.x, y}, {from.x + ui.text_width(title), y + ui.px(16)});
      y += ui.px(kTitleHeight);
    }
    ImGui::PushFont(ui.fonts().small);
    const std::string name = ui.fit(lane.name, axis.left - from.x - ui.px(6));
    list.AddText({from.x, y}, colour(ui.theme().plot.muted), name.c_str());
    list.PushClipRect({axis.left, y}, {axis.right, to.y}, true);
    float drawn_to[2] = {-1, -1};  // of bars narrower than a pixel, one is drawn per pixel
    for (size_t b = 0; b < lane.bars.size(); ++b) {
      const LaneBar& bar = lane.bars[b];
      const float left = axis.at(bar.begin_ns), right = axis.at(bar.end_ns);
      if (right < axis.left || left > axis.right) continue;
      const float x = std::max(left + 1, right - 1);
      if (x <= drawn_to[bar.depth]) continue;
      drawn_to[bar.depth] = x;
      const float top = y + ui.px(kBarHeight) * static_cast<float>(bar.depth);
      const ImVec2 a{left, top}, z{x, top + ui.px(kBarHeight - 1)};
      const bool chosen = selected == PickedBar{l, b};
      list.AddRectFilled(a, z,
                         colour(ui.theme().plot.series[static_cast<size_t>(bar.series)],
                                bar.depth == 0 ? 0.3 : 0.85));
      if (chosen) list.AddRect(a, z, colour(ui.theme().plot.text), 0, 0, ui.px(2));
      const float shown = std::min(z.x, axis.right) - std::max(a.x, axis.left);
      if (shown > ui.px(26)) {
        const std::string text = ui.fit(bar.name, shown - ui.px(6));
        const uint32_t ink = bar.depth == 0 ? ui.theme().plot.text : ui.theme().plot.paper;
        list.AddText({std::max(a.x, axis.left) + ui.px(3), top}, colour(ink), text.c_str());
      }
      constexpr size_t kNoted = 2000;  // the most bars noted for scripts
      if (noted++ < kNoted)
        ui.note(ItemKind::mark, "bar " + bar.name, {std::max(a.x, axis.left), a.y},
                {std::min(z.x, axis.right), z.y});
      if (over && mouse.x >= a.x && mouse.x <= z.x && mouse.y >= a.y && mouse.y < z.y)
        under = PickedBar{l, b};
    }
    list.PopClipRect();
    ImGui::PopFont();
    y += ui.px(lane_height(lane) + kLaneGap);
  }
  if (over || held) input(axis, end_ns, held);
  ImGui::EndChild();
  if (!under) return std::nullopt;
  ImGui::BeginTooltip();
  ui.text(lanes[under->lane].bars[under->bar].name);
  ui.text(about(*under));
  ImGui::EndTooltip();
  return let_go && !moved_ ? under : std::nullopt;
}

}  // namespace wide
