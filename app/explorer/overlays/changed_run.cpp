#include "app/explorer/overlays/changed_run.h"

#include "app/explorer/models/training/run_command.h"
#include "app/explorer/ui/dialog.h"

namespace wide {

void ChangedRun::ask(const std::string& command) {
  command_ = command;
  open_ = true;
  options_ = {{"-n", "models", "How many models are trained as one", "", ""},
              {"--lr", "learning rate", "One, a list 1e-3,1e-2, or a range log:1e-4..1e-1", "", ""},
              {"--batch", "batch", "Rows of a step", "", ""},
              {"--epochs", "epochs", "Passes through the training rows", "", ""},
              {"--steps", "steps", "Training steps, in place of epochs", "", ""},
              {"--seed", "seed", "Of everything random; model i has the seed and i", "", ""},
              {"--save", "folder", "Where the run is saved: a new one", "", ""}};
  for (Option& option : options_) option.value = option.was = option_value(command, option.name);
}

std::string ChangedRun::command() const {
  ChangedOptions changes;
  for (const Option& option : options_)
    if (option.value != option.was) changes.emplace_back(option.name, option.value);
  return changed_command(command_, changes);
}

bool ChangedRun::draw(Ui& ui) {
  if (!begin_dialog(ui, "changed run", open_, 520, 430)) return false;
  ui.bold("Another run with changed settings");
  ImGui::BeginChild("options", {0, -2 * ImGui::GetFrameHeightWithSpacing()});
  for (Option& option : options_) {
    ui.label(option.label, 110);
    ui.field("changed " + option.label, &option.value, "as " + option.name + " has it by itself",
             -1, option.tip + " (" + option.name + "). Empty: as it is.");
  }
  ImGui::Dummy({0, ui.px(4)});
  ui.wrapped(command(), false);
  ImGui::EndChild();
  const bool copied = ui.button("Copy command##changed", Look::primary, true,
                                "The line above, to the clipboard; run it in a terminal");
  if (copied) ImGui::SetClipboardText(command().c_str());
  ImGui::SameLine();
  if (ui.button("Close##changed", Look::plain, true, "Back to the curves (Escape)") ||
      pressed(key::kEscape) || copied)
    open_ = false;
  end_dialog(open_);
  return copied;
}

}  // namespace wide
