// Draws what surrounds the panels: header, tabs, strips, splitters and the status line.
#include "app/explorer/explorer_frame.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

#include "app/explorer/explorer.h"
#include "app/explorer/layout.h"

namespace wide {

void draw_arrow(const Ui& ui, ImVec2 at, float direction) {
  const float d = ui.px(3.5f), sign = direction > 0 ? 1.0f : -1.0f;
  const ImU32 tone = colour(ui.theme().plot.muted);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (std::abs(direction) < 1.5f)
    list.AddTriangleFilled({at.x + sign * d, at.y}, {at.x - sign * d, at.y - d},
                           {at.x - sign * d, at.y + d}, tone);
  else
    list.AddTriangleFilled({at.x, at.y + sign * d}, {at.x - d, at.y - sign * d},
                           {at.x + d, at.y - sign * d}, tone);
}

void Explorer::header(Ui& ui) {
  ui.enter("header");
  ImGui::SetCursorPos({0, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {ui.px(12), ui.px(9)});
  ImGui::PushStyleColor(ImGuiCol_ChildBg, colour(ui.theme().panel));
  ImGui::BeginChild("header", {0, ui.px(kHeaderHeight - 1)}, false,
                    ImGuiWindowFlags_AlwaysUseWindowPadding | ImGuiWindowFlags_NoScrollbar);
  ImGui::PopStyleColor();
  const float right = ImGui::GetWindowContentRegionMax().x;
  const auto width = [&](const char* label) {
    return ui.text_width(label) + 2 * ImGui::GetStyle().FramePadding.x;
  };
  const char* theme_label = settings.dark ? "Light" : "Dark";
  const float space = ImGui::GetStyle().ItemSpacing.x;
  const float buttons = width("Actions") + width("Light") + width("?") + ui.px(84) + 3 * space;
  // The program's name is left out if there is no room.
  ImGui::SetCursorPos({ui.px(12), ui.px(9)});
  if (ImGui::GetWindowWidth() > ui.px(760)) {
    ImGui::AlignTextToFramePadding();
    ui.bold("workbench");
    ImGui::SameLine(0, ui.px(20));
  }
  header_sweep(ui, right - buttons - ui.px(12));
  ImGui::SameLine(right - buttons);
  if (ui.button("Actions", Look::quiet, true, "Everything that can be done, by name (Ctrl+P)"))
    palette.show();
  ImGui::SameLine(right - buttons + width("Actions") + space);
  if (ui.button(theme_label, Look::quiet, true, "Colours of the window (Ctrl+D)"))
    settings.dark = !settings.dark;
  ImGui::SameLine(right - width("?") - ui.px(84) - space);
  std::vector<double> scales = {0};
  scales.insert(scales.end(), std::begin(kScales), std::end(kScales));
  if (std::ranges::find(scales, settings.scale) == scales.end()) scales.push_back(settings.scale);
  ui.choose(
      "scale", &settings.scale, scales,
      [](double s) { return s == 0 ? "Auto" : fmt::format("{:.0f} %", 100 * s); }, ui.px(84),
      "Size of everything; Auto follows the monitor.");
  ImGui::SameLine();
  if (ui.button("?", Look::quiet, true, "Keys")) keys.show();
  ImGui::EndChild();
  ImGui::PopStyleVar();
}

/// The open sweep and its progress, drawn up to x = `end` in the header.
void Explorer::header_sweep(Ui& ui, float end) {
  const auto room = [&] { return end - ImGui::GetCursorPosX(); };
  std::vector<std::string> names;
  int at = -1;
  for (const SweepRow& row : library.sweeps()) {
    if (row.id == library.sweep()) at = static_cast<int>(names.size());
    names.push_back("sweep " + std::to_string(row.id) + " · " + row.name + " · " + row.started);
  }
  const SweepRow* row = library.sweep_row();
  if (names.empty()) {
    const char* why = !library.unreadable().empty() ? "the store cannot be read"
                      : library.listed()            ? "nothing stored yet"
                                                    : "reading the store";
    ui.label(ui.fit(why, room()));
    return;
  }
  const bool unfinished = row && row->state != "complete";
  const float beside = unfinished ? ui.px(160) : 0;
  if (ui.choice("sweep", &at, names, std::clamp(room() - beside, ui.px(90), ui.px(330)),
                "Which measurement is shown in all panels, the newest first."))
    library.open(library.sweeps()[static_cast<size_t>(at)].id);
  if (!unfinished) return;
  if ((row->state == "interrupted" || row->state == "cancelled") && !run.active()) {
    ImGui::SameLine();
    if (ui.button("Resume", Look::plain, true, "Runs the cases that are missing."))
      run.resume(row->id);
  }
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  const std::string state =
      row->state + ", " + std::to_string(row->done) + " of " + std::to_string(row->cases);
  if (room() < ui.px(40)) return ImGui::Dummy({1, 1});
  ui.tinted(ui.fit(state, room()), ui.theme().warn);
  ui.tip("The sweep is " + state + " cases.");
}

/// Draws the strip of a folded side.
void Explorer::strip(Ui& ui, Place where, float x, float y, float width, float height) {
  ui.enter(std::string(to_string(where)) + " strip");
  ImGui::SetCursorPos({x, y});
  const std::string label = std::string("open ") + to_string(where);
  if (ImGui::InvisibleButton(label.c_str(), {width, height})) fold(where, false);
  const bool hovered = ImGui::IsItemHovered();
  ui.note_last(ItemKind::button, label);
  const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  list.AddRectFilled(from, to, colour(hovered ? ui.theme().hover : ui.theme().panel));
  draw_arrow(ui, {(from.x + to.x) / 2, from.y + ui.px(kTabHeight) / 2},
             where == Place::left ? 1.0f : -1.0f);
  ui.tip(std::string("Opens the panels on the ") + to_string(where) + ".");
}

/// Draws the panels of one place, with tabs if there are several.
void Explorer::place(Ui& ui, Place where, float x, float y, float width, float height) {
  ImGui::SetCursorPos({x, y});
  ImGui::PushStyleColor(ImGuiCol_ChildBg, colour(ui.theme().panel));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  ImGui::BeginChild(to_string(where), {width, height}, false, ImGuiWindowFlags_NoScrollbar);
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  tabs(ui, where, width);
  const float tab = ui.px(kTabHeight);
  if (height <= tab + 1) return ImGui::EndChild();  // folded: only the tabs are visible
  ImGui::SetCursorPos({0, tab});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {ui.px(12), ui.px(10)});
  // Below this width a panel scrolls sideways, so that no button is cut off.
  const float least = ui.px(where == Place::middle ? 270.0f : 190.0f);
  const bool narrow = width - 2 * ui.px(12) < least;
  if (narrow) ImGui::SetNextWindowContentSize({least, 0});
  ImGui::BeginChild("inside", {0, 0}, false,
                    ImGuiWindowFlags_AlwaysUseWindowPadding |
                        (narrow ? ImGuiWindowFlags_HorizontalScrollbar : ImGuiWindowFlags_None));
  ImGui::PopStyleVar();
  const std::string& name = shown_[where];
  ui.enter(name);
  if (const auto panel = panels_.find(name); panel != panels_.end()) panel->second->draw(*this, ui);
  ImGui::EndChild();
  ImGui::EndChild();
}

void Explorer::tabs(Ui& ui, Place where, float width) {
  ui.enter(std::string(to_string(where)) + " tabs");
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float tab = ui.px(kTabHeight);
  const ImVec2 at = ImGui::GetWindowPos();
  list.AddLine({at.x, at.y + tab - 0.5f}, {at.x + width, at.y + tab - 0.5f},
               colour(ui.theme().border));
  const bool folds = where != Place::middle;
  const float fold_width = folds ? ui.px(24) : 0;
  float next = ui.px(6);
  float all = next, count = 0;
  for (const PanelInfo& info : panels())
    if (info.place == where) {
      ImGui::PushFont(shown_[where] == info.name ? ui.fonts().bold : ui.fonts().body);
      all += ui.text_width(info.title) + ui.px(24);
      ImGui::PopFont();
      ++count;
    }
  const bool narrow = all > width - fold_width;
  // If even narrow tabs do not fit, all titles are shortened.
  const float room = width - next - ui.px(8) - fold_width, needed = all - next - ui.px(12) * count;
  const float share = needed > room ? room / needed : 1;
  for (const PanelInfo& info : panels()) {
    if (info.place != where) continue;
    const bool on = shown_[where] == info.name;
    ImGui::PushFont(on ? ui.fonts().bold : ui.fonts().body);
    const float pad = ui.px(narrow ? 6 : 12);
    const float wide = (ui.text_width(info.title) + 2 * pad) * share;
    const std::string title = share < 1 ? ui.fit(info.title, wide - 2 * pad) : info.title;
    ImGui::SetCursorPos({next, 0});
    if (ImGui::InvisibleButton(("tab " + info.name).c_str(), {wide, tab})) show(info.name);
    const bool hovered = ImGui::IsItemHovered();
    ui.note_last(ItemKind::tab, info.title, true, on);
    const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
    const float text = ImGui::GetFontSize();
    list.AddText({from.x + pad, from.y + (tab - text) / 2},
                 colour(on || hovered ? ui.theme().plot.text : ui.theme().plot.muted),
                 title.c_str());
    if (on)
      list.AddRectFilled({from.x + pad / 2, to.y - ui.px(2)}, {to.x - pad / 2, to.y},
                         colour(ui.theme().accent));
    ImGui::PopFont();
    ui.tip(info.summary);
    next += wide;
  }
  if (!folds) return;
  const bool folded = where == Place::bottom && settings.bottom_folded;
  ImGui::SetCursorPos({width - fold_width, 0});
  const std::string label = (folded ? "open " : "fold ") + std::string(to_string(where));
  if (ImGui::InvisibleButton(label.c_str(), {fold_width, tab})) fold(where, !folded);
  ui.note_last(ItemKind::button, label);
  const ImVec2 from = ImGui::GetItemRectMin(), to = ImGui::GetItemRectMax();
  draw_arrow(ui, {(from.x + to.x) / 2, (from.y + to.y) / 2},
             where == Place::left    ? -1.0f
             : where == Place::right ? 1.0f
             : folded                ? -2.0f
                                     : 2.0f);
  ui.tip(folded ? "Opens these panels again."
                : "Folds these panels away; a click brings them back.");
}

void Explorer::splitter(Ui& ui, const char* name, float x, float y, float width, float height,
                        float shown, double* units, int sign) {
  ui.enter("splitters");
  ImGui::SetCursorPos({x, y});
  ImGui::InvisibleButton(name, {width, height});
  ui.note_last(ItemKind::handle, name);
  const bool upright = height > width;
  if (ImGui::IsItemHovered() || ImGui::IsItemActive()) {
    ImGui::SetMouseCursor(upright ? ImGuiMouseCursor_ResizeEW : ImGuiMouseCursor_ResizeNS);
    ImGui::GetWindowDrawList()->AddRectFilled(ImGui::GetItemRectMin(), ImGui::GetItemRectMax(),
                                              colour(ui.theme().accent, 0.35));
  }
  const ImVec2 moved = ImGui::GetIO().MouseDelta;
  // Drags start from the splitter's visible position. Only dragging changes the setting; a small
  // window does not.
  if (ImGui::IsItemActive() && (upright ? moved.x : moved.y) != 0)
    *units =
        static_cast<double>(shown) +
        static_cast<double>(static_cast<float>(sign) * (upright ? moved.x : moved.y) / ui.scale());
  ui.tip("Drag it to give one side more room.");
}

void Explorer::footer(Ui& ui, float y, float width, float height) {
  ui.enter("footer");
  ImGui::SetCursorPos({0, y});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {ui.px(12), ui.px(5)});
  ImGui::PushStyleColor(ImGuiCol_ChildBg, colour(ui.theme().raised));
  ImGui::BeginChild("footer", {width, height}, false,
                    ImGuiWindowFlags_AlwaysUseWindowPadding | ImGuiWindowFlags_NoScrollbar);
  ImGui::PopStyleColor();
  ImGui::PushFont(ui.fonts().small);
  const std::string db = ui.fit(library.db(), width * 0.35f);
  const float right = ui.text_width(db);
  const float room = width - right - ui.px(48);
  const RunProgress progress = run.progress();
  if (!said_.empty()) {
    ui.tinted(ui.fit(said_, room), said_error_ ? ui.theme().bad : ui.theme().plot.text);
    ui.tip(said_);
  } else if (!progress.doing.empty()) {
    ui.muted(ui.fit(progress.doing, room));
  } else {
    ui.muted(jobs.busy() ? "reading" : "Ctrl+P: everything that can be done · ?: keys");
  }
  ImGui::SameLine(width - right - ui.px(12));
  ui.muted(db);
  ui.tip("the store: " + library.db());
  ImGui::PopFont();
  ImGui::EndChild();
  ImGui::PopStyleVar();
}

}  // namespace wide
