#include <fmt/format.h>

#include <algorithm>

#include "app/explorer/explorer.h"
#include "data/text.h"

namespace wide::trials_panel {
namespace {

class TrialsPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    Library& library = explorer.library;
    TrialsModel& trials = library.trials();
    tools(explorer, ui, trials);
    if (!ui.filled(trials.table() != nullptr, !library.listed() || !library.sweeps().empty(),
                   "No trial is stored yet", "Trials appear here as soon as a sweep runs."))
      return;
    const bool none = trials.total() == 0;
    if (!ui.filled(!trials.shown().empty(), explorer.jobs.busy(),
                   none ? "No trial of this sweep is done yet" : "No trial fits the filter",
                   none ? "They come case by case while the sweep runs."
                        : "Clear it, or undo it with Ctrl+Z."))
      return;
    table(library, ui, trials, explorer.settings.layouts);
  }

 private:
  void tools(Explorer& explorer, Ui& ui, TrialsModel& trials) {
    const float room = ImGui::GetContentRegionAvail().x;
    std::string text = trials.filter();
    bool done = false;
    if (ui.field("filter", &text, "strategy:grouped n>=8 speedup<1",
                 std::min(ui.px(330), room * 0.4f),
                 "Keeps trials, here and in the overview. Words must all hold. strategy:grouped  "
                 "n>=8  speedup<1  time>2ms  error>1e-6  status=ok  -vmap\nColumns: target shape n "
                 "strategy status speedup loop time error memory compile mode ...",
                 &done)) {
      trials.set_filter(text, true);
      explorer.settings.filter = text;
    }
    if (done) trials.end_typing();
    if (ui.next_button("Undo", trials.can_undo(), "The filter as it was before (Ctrl+Z)"))
      trials.undo();
    if (ui.next_button("Clear", !trials.filter().empty(),
                       "Shows all trials, here and in the overview"))
      trials.set_filter("");
    explorer.settings.filter = trials.filter();
    if (ui.next_button(
            "Copy CSV", !trials.shown().empty(),
            "The rows and columns that are shown, to the clipboard; with the interval of every "
            "speedup, dtype, device, mode and phase")) {
      explorer.jobs.start(
          "copy", [text = csv(trials), &explorer, rows = trials.shown().size()]() -> Jobs::Result {
            return [&explorer, rows, copied = text()] {
              ImGui::SetClipboardText(copied.c_str());
              explorer.say(fmt::format("copied {} rows", rows));
            };
          });
    }
    if (ui.next_button("Save CSV", !trials.shown().empty(), "The same rows and columns, to a file"))
      explorer.save_as("CSV", "trials.csv", [this, &explorer, &trials](const std::string& path) {
        explorer.write_later(path, csv(trials));
      });
    ui.next_label(fmt::format("{} of {}", trials.shown().size(), trials.total()),
                  "How many trials the filter keeps, of all of this sweep.");
    const std::optional<uint32_t> selected = explorer.library.selected_row();
    if (selected && !explorer.library.table()->rows[*selected].baseline &&
        std::find(trials.shown().begin(), trials.shown().end(), *selected) ==
            trials.shown().end()) {
      const char* hidden = "the filter hides the selected trial";
      ui.beside(ui.text_width(hidden));
      ui.tinted(hidden, ui.theme().warn);
    }
    if (!trials.error().empty())
      ui.tinted(ui.fit(trials.error(), ImGui::GetContentRegionAvail().x), ui.theme().bad);
  }

  /// Captures the shown rows; the CSV text is made in a job, as many rows take longer than a frame.
  std::function<std::string()> csv(const TrialsModel& trials) const {
    return [table = trials.shared_table(), rows = trials.shown(), of = visible_] {
      return csv_text(*table, rows, of);
    };
  }

  /// `layouts`: part of the table's id, so that a reset layout starts with default columns.
  void table(Library& library, Ui& ui, TrialsModel& trials, int layouts) {
    constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY |
                                       ImGuiTableFlags_Resizable | ImGuiTableFlags_Reorderable |
                                       ImGuiTableFlags_Hideable | ImGuiTableFlags_Sortable |
                                       ImGuiTableFlags_SortMulti | ImGuiTableFlags_SortTristate |
                                       ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingFixedFit;
    const int count = static_cast<int>(columns().size());
    const std::string id = fmt::format("trials {}", layouts);
    if (!ImGui::BeginTable(id.c_str(), count, kFlags, ui.room(64))) return;
    ImGui::TableSetupScrollFreeze(0, 1);
    for (const TableColumn& c : columns()) {
      ImGuiTableColumnFlags flags = ImGuiTableColumnFlags_WidthFixed;
      if (!c.shown) flags |= ImGuiTableColumnFlags_DefaultHide;
      if (c.number) flags |= ImGuiTableColumnFlags_PreferSortDescending;
      ImGui::TableSetupColumn(c.title.c_str(), flags, ui.px(c.width));
    }
    header(ui);
    if (ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs(); specs && specs->SpecsDirty) {
      std::vector<SortKey> keys;
      for (int i = 0; i < specs->SpecsCount; ++i)
        keys.push_back({specs->Specs[i].ColumnIndex,
                        specs->Specs[i].SortDirection == ImGuiSortDirection_Descending});
      trials.set_sort(std::move(keys));
      specs->SpecsDirty = false;
    }
    show_selected(library, ui, trials);
    Ui::table_lines(trials.shown().size(),
                    [&](size_t i) { row(library, ui, *trials.table(), trials.shown()[i], i); });
    ImGui::EndTable();
  }

  /// Scrolls to a trial that was selected elsewhere.
  void show_selected(const Library& library, const Ui& ui, const TrialsModel& trials) {
    if (library.point() == seen_ || !library.selected_row()) return;
    seen_ = library.point();
    const auto at =
        std::find(trials.shown().begin(), trials.shown().end(), *library.selected_row());
    if (at == trials.shown().end()) return;
    const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
    const float y = line * static_cast<float>(at - trials.shown().begin());
    const float high = ImGui::GetWindowHeight() - 2 * line - ui.px(12);
    if (y < ImGui::GetScrollY() || y > ImGui::GetScrollY() + high)
      ImGui::SetScrollY(std::max(0.0f, y - high / 2));
  }

  void header(Ui& ui) {
    ui.sort_heads([&](size_t c) {
      const TableColumn& column = columns()[c];
      ImGui::PushID(static_cast<int>(c));
      ui.table_head(column.title,
                    fmt::format("{} In filters: {}. A click sorts, with Shift by several; a right "
                                "click chooses columns.",
                                column.about, column.key));
      ImGui::PopID();
    });
    visible_.clear();
    for (int c = 0; c < ImGui::TableGetColumnCount(); ++c)
      if (ImGui::TableGetColumnFlags(c) & ImGuiTableColumnFlags_IsEnabled) visible_.push_back(c);
  }

  void row(Library& library, Ui& ui, const TrialTable& table, uint32_t index, size_t line) {
    const TrialRow& row = table.rows[index];
    ImGui::TableNextRow();
    ImGui::PushID(static_cast<int>(index));
    bool first = true;
    const auto& point = library.point();
    const bool selected = point && point->case_id == row.case_id && !point->baseline &&
                          point->strategy == table.word(row.strategy);
    for (int c = 0; c < static_cast<int>(columns().size()); ++c) {
      if (!ImGui::TableSetColumnIndex(c)) continue;
      const TableColumn& column = columns()[static_cast<size_t>(c)];
      if (first) {
        if (ui.whole_line(fmt::format("trial {}", line + 1), selected,
                          "Selects this trial in the whole window.")) {
          library.select_row(index);
          seen_ = library.point();  // a clicked row is visible already: no scrolling
        }
        first = false;
      }
      ui.cell_text(cell_text(table, row, column), tone(ui, table, row, column),
                   column.number != nullptr);
    }
    ImGui::PopID();
  }

  static uint32_t tone(const Ui& ui, const TrialTable& table, const TrialRow& row,
                       const TableColumn& column) {
    const Theme& t = ui.theme();
    if (column.key == "status") {
      const std::string& status = table.word(row.status);
      return status == "ok" ? t.good : status == "unsupported" ? t.plot.muted : t.bad;
    }
    if (column.key == "verdict") {
      const std::string& verdict = table.word(row.verdict);
      return verdict == "FASTER" ? t.good : verdict == "SLOWER" ? t.warn : t.plot.muted;
    }
    return column.key == "reason" ? t.plot.muted : t.plot.text;
  }

  std::vector<int> visible_;
  std::optional<PointKey> seen_;  // the trial that the table last scrolled to
};

const bool registered =
    add_panel({"trials", "Trials", "Every trial: filter, sort, copy.", Place::bottom, 0,
               [] { return std::make_unique<TrialsPanel>(); }});

}  // namespace
}  // namespace wide::trials_panel
