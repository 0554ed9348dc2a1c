#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "app/explorer/explorer.h"
#include "app/explorer/models/trials/thin.h"

namespace wide::correctness_panel {
namespace {

/// Every strategy of one target by N: its error, and whether models stay apart and in order.
class CorrectnessPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    Library& library = explorer.library;
    if (!ui.filled(!library.groups().empty(), !library.listed() || explorer.jobs.busy("open"),
                   "Nothing was checked yet",
                   "Run a sweep: every strategy is checked against float64 before and after it is "
                   "timed."))
      return;
    const Group& group = library.groups()[library.group()];
    const TrialTable& table = *library.table();
    int at = static_cast<int>(library.group());
    if (ui.choice("target and shape", &at, library.group_names(),
                  std::min(ui.px(300), ImGui::GetContentRegionAvail().x),
                  "Whose strategies are listed; its best trial becomes the selected one."))
      library.choose_group(static_cast<size_t>(at));
    ImGui::PushTextWrapPos(0);
    ui.small(
        "max relative error against float64 · times the separate models' own error · isolation and "
        "order of the models");
    ImGui::PopTextWrapPos();
    std::set<int64_t> all;
    std::map<std::pair<std::string, std::string>, std::map<int64_t, uint32_t>> lines;
    for (const uint32_t index : group.rows) {
      const TrialRow& row = table.rows[index];
      if (row.baseline) continue;
      const int64_t place = group.place(table, row);
      all.insert(place);
      lines[{table.word(row.strategy), table.word(row.mode)}][place] = index;
    }
    const std::vector<int64_t> ns = thinned<int64_t>({all.begin(), all.end()});
    std::vector<Ui::Column> heads{{"strategy", 150, "The way the models were computed as one"}};
    for (const int64_t n : ns) heads.push_back({fmt::format("{}={}", group.axis, n), 132});
    if (!ui.begin_table("checks", heads, ui.room(110),
                        ImGuiTableFlags_ScrollX | ImGuiTableFlags_RowBg))
      return;
    for (const auto& [name, cells] : lines) {
      ImGui::TableNextRow();
      ui.cell(0, name.first + (name.second == "default" ? "" : " · " + name.second));
      int column = 1;
      for (const int64_t n : ns) {
        ImGui::TableSetColumnIndex(column++);
        if (const auto cell = cells.find(n); cell != cells.end())
          draw_cell(library, ui, table, cell->second, fmt::format("{}={}", group.axis, n));
      }
    }
    ImGui::EndTable();
  }

 private:
  static void draw_cell(Library& library, Ui& ui, const TrialTable& table, uint32_t index,
                        const std::string& place) {
    const TrialRow& row = table.rows[index];
    const std::string& status = table.word(row.status);
    const bool wrong = status == "incorrect", right = status == "ok";
    const ImVec2 at = ImGui::GetCursorPos();
    const float line = ImGui::GetTextLineHeight();
    ImGui::PushID(static_cast<int>(index));
    const float width = std::max(1.0f, ImGui::GetContentRegionAvail().x);
    if (ImGui::InvisibleButton("cell", {width, 2 * line + ui.px(2)})) library.select_row(index);
    ui.note_last(ItemKind::area, fmt::format("check {} {}", table.word(row.strategy), place));
    if (!table.word(row.reason).empty()) ui.tip(table.word(row.reason));
    ImGui::PopID();
    ImGui::SetCursorPos(at);
    if (!right && !wrong) {
      ui.fitted(status, width, true);
      return;
    }
    std::string first = std::isnan(row.max_rel) ? "no number" : fmt::format("{:.1e}", row.max_rel);
    if (row.eager_max_rel > 0 && row.max_rel > 0)
      first += fmt::format("  {:.2g}×", row.max_rel / row.eager_max_rel);
    if (wrong)
      ui.tinted("✗ " + first, ui.theme().bad);
    else
      ui.text(first);
    ImGui::SetCursorPos({at.x, at.y + line + ui.px(2)});
    const auto mark = [](int8_t flag) { return flag < 0 ? "–" : flag ? "✓" : "✗"; };
    ImGui::PushFont(ui.fonts().small);
    ui.tinted(fmt::format("{} apart  {} in order", mark(row.isolated), mark(row.ordered)),
              row.isolated == 0 || row.ordered == 0 ? ui.theme().bad : ui.theme().plot.muted);
    ImGui::PopFont();
  }
};

const bool registered = add_panel(
    {"correctness", "Correctness", "Error, isolation and order of every strategy along N.",
     Place::middle, 2, [] { return std::make_unique<CorrectnessPanel>(); }});

}  // namespace
}  // namespace wide::correctness_panel
