#include <fmt/format.h>

#include "app/explorer/explorer.h"

namespace wide::trainings_panel {
namespace {

class TrainingsPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    TrainingModel& training = explorer.training;
    training.watch();
    if (!ui.filled(!training.runs().empty(), !training.listed(), "No training run is stored",
                   "workbench train and nw.train store their runs."))
      return;
    for (const RunRow& row : training.runs()) line(explorer, ui, row);
  }

 private:
  static void line(Explorer& explorer, Ui& ui, const RunRow& row) {
    TrainingModel& training = explorer.training;
    const float width = ImGui::GetContentRegionAvail().x;
    const ImVec2 at = ImGui::GetCursorPos();
    const std::string label = fmt::format("training run {}", row.id);
    const bool chosen = row.id == training.run();
    if (ImGui::Selectable(("##" + label).c_str(), chosen, ImGuiSelectableFlags_AllowItemOverlap,
                          {0, 3 * ImGui::GetTextLineHeight() + ui.px(10)})) {
      // A click with Ctrl overlays a second run.
      if (ImGui::GetIO().KeyCtrl)
        training.lay_over(row.id);
      else
        training.choose(row.id);
      for (const char* panel : {"training", "models", "scatter"}) explorer.show(panel);
    }
    ui.note_last(ItemKind::row, label, true, chosen || row.id == training.over());
    ui.tip("Shows its curves; with Ctrl they are laid over those of the chosen run.");
    const ImVec2 next = ImGui::GetCursorPos();
    ImGui::SetCursorPos({at.x + ui.px(4), at.y + ui.px(2)});
    ui.bold(ui.fit(fmt::format("{} · {}", row.id, row.name), width * 0.6f));
    ImGui::SameLine();
    ui.tinted(row.state, row.state == "running"    ? ui.theme().good
                         : row.state == "complete" ? ui.theme().plot.muted
                                                   : ui.theme().warn);
    const auto below = [&](int lines, const std::string& text) {
      ImGui::SetCursorPos(
          {at.x + ui.px(4), at.y + ui.px(2.0f + 2.0f * static_cast<float>(lines)) +
                                static_cast<float>(lines) * ImGui::GetTextLineHeight()});
      ui.fitted(text, width - ui.px(8), true);
    };
    below(1, fmt::format("{} models of {} · {}", row.n, row.network, row.started.substr(0, 16)));
    below(2, statuses(training, row));
    ImGui::SetCursorPos(next);
  }

  /// How the run's models ended, and the best value of the run that is open.
  static std::string statuses(const TrainingModel& training, const RunRow& row) {
    std::string text;
    const auto view = training.view();
    if (row.id == training.run() && view && !view->runs.empty() && view->runs[0]->id == row.id) {
      std::optional<double> best;
      for (const TrainedModel& m : view->models)
        if (m.run == 0 && m.best &&
            (!best || (view->more_is_better ? *m.best > *best : *m.best < *best)))
          best = m.best;
      if (best) text = fmt::format("best {} {:.4g}", view->compared, *best);
    }
    for (const auto& [status, count] : row.statuses)
      text += fmt::format("{}{} {}", text.empty() ? "" : " · ", count, status);
    return text;
  }
};

const bool registered =
    add_panel({"trainings", "Trainings", "The training runs of the store, the newest first.",
               Place::left, 2, [] { return std::make_unique<TrainingsPanel>(); }});

}  // namespace
}  // namespace wide::trainings_panel
