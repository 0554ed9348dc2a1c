#include "app/explorer/ui/dialog.h"

#include <algorithm>

namespace wide {

bool begin_dialog(Ui& ui, const char* name, bool open, float width, float height) {
  if (!open) return false;
  const ImVec2 size = ImGui::GetIO().DisplaySize;
  const ImVec2 wanted = {std::min(ui.px(width), size.x - ui.px(24)),
                         std::min(ui.px(height), size.y - ui.px(24))};
  ImGui::SetNextWindowPos({(size.x - wanted.x) / 2, (size.y - wanted.y) / 3});
  ImGui::SetNextWindowSize(wanted);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {ui.px(14), ui.px(12)});
  ImGui::OpenPopup(name);
  const bool shown =
      ImGui::BeginPopupModal(name, nullptr,
                             ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize |
                                 ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings);
  ImGui::PopStyleVar();
  if (shown) ui.enter(name);
  return shown;
}

void end_dialog(bool open) {
  if (!open) ImGui::CloseCurrentPopup();
  ImGui::EndPopup();
}

bool pressed(int key) { return ImGui::IsKeyPressed(key, true); }

}  // namespace wide
