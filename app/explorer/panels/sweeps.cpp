#include <fmt/format.h>

#include "app/explorer/explorer.h"
#include "data/reports/sweep/report.h"
#include "data/text.h"

namespace wide::sweeps_panel {
namespace {

class SweepsPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    Library& library = explorer.library;
    if (!ui.filled(!library.sweeps().empty(), !library.listed(), "No sweep is stored",
                   "Run one: the tab Run says how long it takes."))
      return;
    const float width = ImGui::GetContentRegionAvail().x;
    constexpr size_t kMany = 8;  // from this many sweeps on there is a search field
    if (library.sweeps().size() > kMany)
      ui.field("find a sweep", &search_, "name, date, state or machine", -1,
               "Shows only the sweeps whose name, date, state or machine holds this.");
    else
      search_.clear();
    const std::string wanted = lower_case(search_);
    for (const SweepRow& row : library.sweeps()) {
      if (lower_case(
              fmt::format("{} {} {} {} {}", row.id, row.name, row.started, row.state, row.host))
              .find(wanted) == std::string::npos)
        continue;
      const ImVec2 at = ImGui::GetCursorPos();
      const std::string label = fmt::format("sweep {}", row.id);
      const float height = 2 * ImGui::GetTextLineHeight() + ui.px(8);
      if (ImGui::Selectable(("##" + label).c_str(), row.id == library.sweep(),
                            ImGuiSelectableFlags_AllowItemOverlap, {0, height}))
        library.open(row.id);
      ui.note_last(ItemKind::row, label, true, row.id == library.sweep());
      ui.tip("Opens this sweep in all panels.");
      const ImVec2 next = ImGui::GetCursorPos();
      int64_t trials = 0, wrong = 0;
      for (const auto& [status, count] : row.trials) {
        trials += count;
        const Ending ending = ending_of(status);
        if (ending == Ending::incorrect || ending == Ending::failed) wrong += count;
      }
      ImGui::SetCursorPos({at.x + ui.px(4), at.y + ui.px(2)});
      ui.bold(ui.fit(fmt::format("{} · {}", row.id, row.name), width * 0.6f));
      ImGui::SameLine();
      ui.tinted(row.state, row.state == "complete" ? ui.theme().plot.muted : ui.theme().warn);
      ImGui::SetCursorPos({at.x + ui.px(4), at.y + ui.px(4) + ImGui::GetTextLineHeight()});
      std::string line = fmt::format("{} · {} trials", row.started.substr(0, 10), trials);
      if (wrong > 0) line += fmt::format(" · {} incorrect or failed", wrong);
      ui.fitted(line, width - ui.px(8), true);
      ImGui::SetCursorPos(next);
    }
  }

 private:
  std::string search_;
};

const bool registered = add_panel({"sweeps", "Sweeps", "The sweeps in the store.", Place::left, 1,
                                   [] { return std::make_unique<SweepsPanel>(); }});

}  // namespace
}  // namespace wide::sweeps_panel
