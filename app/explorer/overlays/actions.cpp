#include "app/explorer/overlays/actions.h"

#include <algorithm>

#include "app/explorer/explorer.h"
#include "app/explorer/layout.h"
#include "app/explorer/ui/dialog.h"

namespace wide {

std::vector<Action> actions_of(Explorer& explorer) {
  std::vector<Action> all;
  for (const PanelInfo& info : panels())
    all.push_back(
        {"Show " + info.title, "", [&explorer, name = info.name] { explorer.show(name); }});
  all.push_back({"Start the sweep", "Ctrl+R", [&explorer] {
                   explorer.show("run");
                   explorer.run.start();
                 }});
  all.push_back({"Pause the sweep", "", [&explorer] { explorer.run.pause(); }});
  all.push_back({"Go on with the sweep", "", [&explorer] { explorer.run.go_on(); }});
  all.push_back({"Cancel the sweep", "", [&explorer] { explorer.run.cancel(); }});
  all.push_back({"Undo the filter", "Ctrl+Z", [&explorer] { explorer.library.trials().undo(); }});
  all.push_back({"Redo the filter", "Ctrl+Y", [&explorer] { explorer.library.trials().redo(); }});
  all.push_back(
      {"Clear the filter", "", [&explorer] { explorer.library.trials().set_filter(""); }});
  all.push_back({"Light or dark", "Ctrl+D",
                 [&explorer] { explorer.settings.dark = !explorer.settings.dark; }});
  const auto scale = [&explorer](double step) {
    explorer.settings.scale =
        std::clamp((explorer.settings.scale == 0 ? 1 : explorer.settings.scale) + step, 0.75, 2.0);
  };
  all.push_back({"Larger", "Ctrl++", [scale] { scale(0.125); }});
  all.push_back({"Smaller", "Ctrl+-", [scale] { scale(-0.125); }});
  all.push_back(
      {"Size as the monitor says", "Ctrl+0", [&explorer] { explorer.settings.scale = 0; }});
  all.push_back({"Reset layout", "", [&explorer] { reset_layout(&explorer.settings); }});
  all.push_back({"Read the store again", "F5", [&explorer] {
                   explorer.library.refresh();
                   if (explorer.library.sweep() > 0)
                     explorer.library.open(explorer.library.sweep());
                 }});
  all.push_back({"Keys", "?", [&explorer] { explorer.keys.show(); }});
  all.push_back({"Quit", "Ctrl+Q", [&explorer] { explorer.quit = true; }});
  return all;
}

void press_keys(Explorer& explorer) {
  const ImGuiIO& io = ImGui::GetIO();
  const bool dialog =
      explorer.palette.is_open() || explorer.keys.is_open() || explorer.files.is_open();
  if (io.KeyCtrl && pressed(key::kP)) {
    if (explorer.palette.is_open())
      explorer.palette.close();
    else
      explorer.palette.show();
  }
  if (dialog) return;
  if (pressed(key::kF5)) {
    explorer.library.refresh();
    if (explorer.library.sweep() > 0) explorer.library.open(explorer.library.sweep());
  }
  if (!io.KeyCtrl) {
    if (io.WantTextInput) return;
    for (const ImWchar c : io.InputQueueCharacters)
      if (c == '?') explorer.keys.show();
    return;
  }
  static const std::pair<int, const char*> kKeys[] = {{key::kR, "Start the sweep"},
                                                      {key::kD, "Light or dark"},
                                                      {key::kQ, "Quit"},
                                                      {key::kEqual, "Larger"},
                                                      {key::kMinus, "Smaller"},
                                                      {key::k0, "Size as the monitor says"}};
  static const std::pair<int, const char*> kUndo[] = {{key::kZ, "Undo the filter"},
                                                      {key::kY, "Redo the filter"}};
  const auto run_named = [&explorer](const char* name) {
    for (const Action& action : actions_of(explorer))
      if (action.name == name) action.run();
  };
  for (const auto& [k, name] : kKeys)
    if (pressed(k)) run_named(name);
  // While a text field has the focus these keys belong to it.
  for (const auto& [k, name] : kUndo)
    if (pressed(k) && !io.WantTextInput) run_named(name);
}

}  // namespace wide
