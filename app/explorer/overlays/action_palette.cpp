#include "app/explorer/overlays/action_palette.h"

#include <algorithm>

#include "app/explorer/ui/dialog.h"
#include "data/text.h"

namespace wide {

void ActionPalette::draw(Ui& ui, const std::vector<Action>& actions) {
  if (!begin_dialog(ui, "palette", open_, 480, 420)) return;
  if (fresh_) {
    text_.clear();
    at_ = 0;
    ImGui::SetKeyboardFocusHere();
  }
  fresh_ = false;
  if (ui.field("action", &text_, "what to do", -1,
               "Type a part of a name; Up and Down choose, Enter does it."))
    at_ = 0;
  const std::string wanted = lower_case(text_);
  std::vector<const Action*> found;
  for (const Action& action : actions)
    if (lower_case(action.name).find(wanted) != std::string::npos) found.push_back(&action);
  const int count = static_cast<int>(found.size());
  if (pressed(key::kDown)) ++at_;
  if (pressed(key::kUp)) --at_;
  at_ = std::clamp(at_, 0, std::max(0, count - 1));
  const Action* taken = nullptr;
  if (pressed(key::kEnter) && count > 0) taken = found[static_cast<size_t>(at_)];
  ImGui::BeginChild("actions");
  for (int i = 0; i < count; ++i) {
    const Action& action = *found[static_cast<size_t>(i)];
    const float right = ImGui::GetContentRegionAvail().x - ui.text_width(action.keys);
    if (ui.row(action.name, i == at_)) taken = &action;
    if (action.keys.empty()) continue;
    ImGui::SameLine(right);
    ui.muted(action.keys);
  }
  if (found.empty()) ui.muted("nothing of this name; try fewer letters");
  ImGui::EndChild();
  if (taken || pressed(key::kEscape)) open_ = false;
  end_dialog(open_);
  if (taken) taken->run();
}

void KeySheet::draw(Ui& ui, const std::vector<Action>& actions) {
  if (!begin_dialog(ui, "keys", open_, 460, 470)) return;
  ui.title("Keys and mouse");
  ImGui::Dummy({0, ui.px(6)});
  static const std::pair<const char*, const char*> kMouse[] = {
      {"wheel over a plot", "zoom"},
      {"drag, right drag", "move, zoom into a box"},
      {"double click on a plot", "all of it"},
      {"click on a point", "select it"},
      {"click in the legend", "hide a curve; twice: only it"},
      {"click on a column", "sort; with Shift by several"},
      {"drop files", "fuse them"}};
  const float column = ui.px(190);
  const auto line = [&](const std::string& what, const std::string& does) {
    ui.bold(what);
    ImGui::SameLine(column);
    ui.text(does);
  };
  for (const Action& action : actions)
    if (!action.keys.empty()) line(action.keys, action.name);
  line("Ctrl+P", "Everything that can be done");
  for (const auto& [what, does] : kMouse) line(what, does);
  ImGui::Dummy({0, ui.px(6)});
  if (ui.button("Close", Look::plain, true, "Back to the window (Escape)") || pressed(key::kEscape))
    open_ = false;
  end_dialog(open_);
}

}  // namespace wide
