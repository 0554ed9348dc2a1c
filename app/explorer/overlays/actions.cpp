#include "app/explorer/overlays/actions.h"

#include <algorithm>

#include "app/explorer/explorer.h"
#include "app/explorer/layout.h"
#include "app/explorer/ui/dialog.h"

namespace wide {
namespace {

constexpr double kAlike = 0.01;  // scales that differ by less are the same

}  // namespace

std::vector<Action> actions_of(Explorer& explorer) {
  std::vector<Action> all;
  for (const PanelInfo& info : panels())
    all.push_back(
        {"Show " + info.title, "", [&explorer, name = info.name] { explorer.show(name); }});
  const auto start = [&explorer] {
    explorer.show("run");
    explorer.run.start();
  };
  // To the next scale from the one that is in use; a monitor's may be beyond all of them.
  const auto larger = [&explorer] {
    const auto next = std::ranges::upper_bound(kScales, explorer.scale() + kAlike);
    if (next != std::end(kScales)) explorer.settings.scale = *next;
  };
  const auto smaller = [&explorer] {
    const auto from = std::ranges::lower_bound(kScales, explorer.scale() - kAlike);
    if (from != std::begin(kScales)) explorer.settings.scale = *std::prev(from);
  };
  const auto read_again = [&explorer] {
    explorer.library.read_again();
    explorer.training.refresh();
  };
  TrialsModel& trials = explorer.library.trials();
  Settings& settings = explorer.settings;
  const Action others[] = {
      {"Start the sweep", "Ctrl+R", start, key::kR},
      {"Pause the sweep", "", [&explorer] { explorer.run.pause(); }},
      {"Go on with the sweep", "", [&explorer] { explorer.run.go_on(); }},
      {"Cancel the sweep", "", [&explorer] { explorer.run.cancel(); }},
      {"Undo the filter", "Ctrl+Z", [&trials] { trials.undo(); }, key::kZ, true},
      {"Redo the filter", "Ctrl+Y", [&trials] { trials.redo(); }, key::kY, true},
      {"Clear the filter", "", [&trials] { trials.set_filter(""); }},
      {"Light or dark", "Ctrl+D", [&settings] { settings.dark = !settings.dark; }, key::kD},
      {"Larger", "Ctrl++", larger, key::kEqual},
      {"Smaller", "Ctrl+-", smaller, key::kMinus},
      {"Size as the monitor says", "Ctrl+0", [&settings] { settings.scale = 0; }, key::k0},
      {"Reset layout", "", [&settings] { reset_layout(&settings); }},
      {"Read the store again", "F5", read_again, key::kF5},
      {"Keys", "?", [&explorer] { explorer.keys.show(); }},
      {"Quit", "Ctrl+Q", [&explorer] { explorer.quit = true; }, key::kQ}};
  all.insert(all.end(), std::begin(others), std::end(others));
  return all;
}

void press_keys(Explorer& explorer, const std::vector<Action>& actions) {
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
  for (const Action& action : actions)
    if (action.key != 0 && (io.KeyCtrl || action.key == key::kF5) && pressed(action.key) &&
        !(action.of_text && io.WantTextInput))
      action.run();
  if (io.KeyCtrl || io.WantTextInput) return;
  for (const ImWchar c : io.InputQueueCharacters)
    if (c == '?') explorer.keys.show();
}

}  // namespace wide
