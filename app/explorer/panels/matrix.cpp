#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/explorer/explorer.h"
#include "app/explorer/models/trials/thin.h"
#include "data/plot/scale.h"

namespace wide::matrix_panel {
namespace {

/// Blue for better than 1, orange for worse: distinguishable with any colour vision.
ImU32 shade(const Ui& ui, double speedup) {
  const double strength = std::min(1.0, std::abs(std::log2(speedup)) / 4);
  const uint32_t tone = ui.theme().plot.series[speedup >= 1 ? 0 : 1];
  return colour(tone, 0.08 + 0.5 * strength);
}

/// The measures that cells may be coloured by.
constexpr Measure kColours[] = {Measure::speedup, Measure::time, Measure::memory};

/// Heads of columns wider than this are cut off.
constexpr float kWidestHead = 150;

constexpr const char* kPaysFrom =
    "The smallest N from which on the fastest strategy is FASTER than the best baseline at every "
    "larger N that was measured: the whole 95 % interval of its speedup lies above 1. never: there "
    "is no such N.";

class MatrixPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    Library& library = explorer.library;
    if (!ui.filled(library.table() && !library.table()->rows.empty(),
                   !library.listed() || explorer.jobs.busy("open"), "Nothing to compare yet",
                   "Choose what to run on the left and press Start; results appear here case by "
                   "case."))
      return;
    const Overview& overview = library.overview();
    tools(explorer, ui, overview);
    legend(ui, overview);
    if (!overview.lines.empty())
      table(explorer, ui, overview);
    else if (!library.overview_options().filter.empty())
      ui.empty("No trial fits the filter", "Clear it, or undo it with Ctrl+Z.");
    else
      ui.empty("No trial has both of these axes", "Choose others above.");
  }

 private:
  static void tools(Explorer& explorer, Ui& ui, const Overview& overview) {
    Library& library = explorer.library;
    OverviewOptions options = library.overview_options();
    const auto [rows, columns] = matrix_axes(library.axes());
    axis(ui, library, "rows", rows, overview.rows, "What each row of the table stands for.",
         &options.rows);
    ui.beside(ui.px(112) + ui.text_width("by") + ImGui::GetStyle().ItemSpacing.x);
    ui.label("by");
    ImGui::SameLine();
    axis(ui, library, "columns", columns, overview.columns,
         "What each column of the table stands for.", &options.columns);
    ui.beside(ui.px(92));
    ui.choose(
        "colour", &options.measure, kColours, [](Measure m) { return to_string(m); }, ui.px(92),
        "What the cells say and are coloured by.");
    for (const OverviewHold& hold : overview.holds) held(ui, hold, &options);
    filter(explorer, ui);
    if (options == library.overview_options()) return;
    // Rows and columns must differ: choosing the other's axis swaps them.
    if (!options.rows.empty() && options.rows == options.columns) {
      if (options.rows != library.overview_options().rows)
        options.columns = overview.rows;
      else
        options.rows = overview.columns;
    }
    explorer.settings.matrix_rows = options.rows;
    explorer.settings.matrix_columns = options.columns;
    explorer.settings.colour = to_string(options.measure);
    library.set_overview(options);
  }

  /// Shows the filter of the trials' table, as it hides trials here too.
  static void filter(Explorer& explorer, Ui& ui) {
    TrialsModel& trials = explorer.library.trials();
    if (trials.applied().empty()) return;
    const std::string text = ui.fit("filter: " + trials.applied(), ui.px(220));
    ui.beside(ui.text_width(text) + ui.text_width("Clear filter") + ui.px(24));
    ImGui::AlignTextToFramePadding();
    ui.tinted(text, ui.theme().warn);
    ui.tip("Only trials that fit the filter of the table of trials are counted here.");
    ImGui::SameLine();
    if (ui.button("Clear filter", Look::plain, true, "Shows all trials, here and in the table"))
      trials.set_filter("");
  }

  /// A list of all axes with several values; the first entry means the default.
  static void axis(Ui& ui, const Library& library, const std::string& name,
                   const std::string& suggested, const std::string& shown, const std::string& tip,
                   std::string* chosen) {
    std::vector<std::string> names{""};
    for (const TableAxis& a : library.axes())
      if (a.several() || a.name == shown) names.push_back(a.name);
    const auto text = [&](const std::string& axis) {
      return axis.empty() ? "auto: " + suggested : axis;
    };
    ui.choose(name, chosen, names, text, ui.px(112), tip);
  }

  static void held(Ui& ui, const OverviewHold& hold, OverviewOptions* options) {
    std::vector<std::string> names{"every " + hold.axis};
    int at = 0;
    const bool number = hold.values.front().find_first_not_of("-0123456789") == std::string::npos;
    for (const std::string& value : hold.values) {
      if (value == hold.held) at = static_cast<int>(names.size());
      names.push_back(number ? hold.axis + "=" + value : value);
    }
    ui.beside(ui.px(112));
    if (!ui.choice("held " + hold.axis, &at, names, ui.px(112),
                   "Shows the trials of one value alone; else a cell shows the best of all values "
                   "of " +
                       hold.axis + "."))
      return;
    options->held.erase(hold.axis);
    if (at > 0) options->held[hold.axis] = hold.values[static_cast<size_t>(at) - 1];
  }

  static void legend(Ui& ui, const Overview& overview) {
    const bool speedup = overview.measure == Measure::speedup;
    ui.small(speedup                             ? "best right speedup over the best baseline"
             : overview.measure == Measure::time ? "least time of a call that is right"
                                                 : "least peak memory of a call that is right");
    ui.tip(
        "Each cell shows the best strategy that is right; click it for all that is known of it.");
    const auto sample = [&](double value, const char* text) {
      ImGui::PushFont(ui.fonts().small);
      const float width = ui.text_width(text);
      ImGui::PopFont();
      const float side = ui.px(12);
      ui.beside(width + side + ui.px(10));
      const ImVec2 at = ImGui::GetCursorScreenPos();
      const float y = at.y + ui.px(1);
      ImGui::GetWindowDrawList()->AddRectFilled({at.x, y}, {at.x + side, y + side},
                                                shade(ui, value), ui.px(2));
      ImGui::Dummy({side, side});
      ImGui::SameLine(0, ui.px(5));
      ui.small(text);
    };
    sample(1.0 / 16, speedup ? "slower" : "most");
    sample(1, speedup ? "same" : "middle");
    sample(16, speedup ? "faster" : "least");
    const auto next = [&](const std::string& text, uint32_t tone, const char* tip) {
      ImGui::PushFont(ui.fonts().small);
      const float width = ui.text_width(text);
      ui.beside(width);
      ui.tinted(text, tone);
      ImGui::PopFont();
      ui.tip(tip);
    };
    const uint32_t muted = ui.theme().plot.muted;
    int oom = 0, skipped = 0, fits = 0, stopped = 0, none = 0;
    for (const OverviewLine& l : overview.lines)
      for (const auto& [value, cell] : l.cells) {
        oom += cell.oom;
        skipped += cell.skipped;
        stopped += cell.not_finished;
        none += cell.row < 0 && cell.unsupported > 0;
        fits += cell.row >= 0 && std::isnan(cell.value) && cell.left_out >= 0;
      }
    next("✗ incorrect or failed", ui.theme().bad,
         "At least one strategy here gave a wrong answer, crashed or hung.");
    next("– not in this sweep", muted, "No case of the sweep has both of these values.");
    if (none > 0)
      next("none: not supported", muted,
           "No strategy can compute it; a click shows the reason of each.");
    if (oom > 0)
      next("OOM more than the memory", muted, "It would need more memory than this machine has.");
    if (skipped > 0) next("skipped by the budget", muted, "The seconds given were too few for it.");
    if (stopped > 0)
      next("stopped", muted, "The sweep was cancelled or interrupted here; Resume runs it.");
    if (fits > 0)
      next("fits where no baseline does", muted,
           "The wide program ran; no baseline fits into the memory, so there is no speedup.");
    next("~ disturbed by other programs", muted,
         "Other programs used the processor meanwhile: the time is not to be trusted.");
    if (overview.heads.size() > kMostColumns)
      next(fmt::format("{} of {} columns", kMostColumns, overview.heads.size()), muted,
           "Some values in between are left out, so that columns have room.");
  }

  void table(Explorer& explorer, Ui& ui, const Overview& overview) {
    std::vector<size_t> values;
    for (size_t v = 0; v < overview.heads.size(); ++v) values.push_back(v);
    values = thinned(values);
    const bool along_n = overview.columns == "N" && overview.measure == Measure::speedup;
    const int first = along_n ? 4 : 3, columns = first + static_cast<int>(values.size());
    constexpr ImGuiTableFlags kFlags =
        ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY | ImGuiTableFlags_SizingFixedFit |
        ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate | ImGuiTableFlags_NoSavedSettings;
    // The id depends on the columns, because ImGui remembers their widths by it.
    const std::string id =
        fmt::format("matrix {} {}", overview.columns, to_string(overview.measure));
    if (!ImGui::BeginTable(id.c_str(), columns, kFlags, ui.room(110))) return;
    float widest = ui.px(110);
    for (const OverviewLine& line : overview.lines)
      widest = std::max(widest, ui.text_width(line.name) + ui.px(4));
    ImGui::TableSetupScrollFreeze(1, 1);
    heads_.clear();
    const auto column = [&](const std::string& name, float width, OverviewSort sort,
                            const std::string& tip, bool largest_first = false) {
      ImGui::TableSetupColumn(name.c_str(),
                              ImGuiTableColumnFlags_WidthFixed |
                                  (largest_first ? ImGuiTableColumnFlags_PreferSortDescending : 0),
                              std::max(width, ui.text_width(name) + ui.px(18)));
      heads_.push_back({name, tip + " A click sorts by it.", sort});
    };
    using By = OverviewSort::By;
    const bool memory = overview.measure == Measure::memory;
    column(overview.rows, widest, {By::name}, "What the row stands for.");
    column(memory ? "least" : "fastest", ui.px(104), {By::fastest},
           "The best strategy in the last column that has one.");
    if (along_n) column("pays from", ui.px(64), {By::pays_from}, kPaysFrom);
    column("right", ui.px(70), {By::right},
           "Whether every strategy gives the answers of the separate models. A click sorts by the "
           "share that does not.",
           true);
    for (const size_t v : values)
      column(overview.heads[v],
             std::clamp(ui.text_width(overview.heads[v]) + ui.px(4), ui.px(64), ui.px(kWidestHead)),
             {By::column, v}, "The best strategy that is right at " + overview.heads[v] + ".",
             overview.measure == Measure::speedup);
    ui.sort_heads([&](size_t c) { ui.table_head(heads_[c].name, heads_[c].tip); });
    if (ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs(); specs && specs->SpecsDirty) {
      sort_ = {};
      if (specs->SpecsCount > 0) {
        sort_ = heads_[static_cast<size_t>(specs->Specs[0].ColumnIndex)].sort;
        sort_.descending = specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
      }
      specs->SpecsDirty = false;
    }
    const std::vector<size_t> order = sorted_lines(overview, sort_);
    Ui::table_lines(order.size(), [&](size_t i) {
      line(explorer, ui, overview, values, overview.lines[order[i]], first);
    });
    ImGui::EndTable();
  }

  static bool selected(const Library& library, const Overview& overview, const OverviewLine& l) {
    const TableAxis* rows = find_axis(library.axes(), overview.rows);
    const std::optional<uint32_t> row = library.selected_row();
    return rows && row && rows->of_row[*row] == static_cast<int32_t>(l.value);
  }

  static void line(Explorer& explorer, Ui& ui, const Overview& overview,
                   const std::vector<size_t>& values, const OverviewLine& l, int first) {
    ImGui::TableNextRow();
    ImGui::TableSetColumnIndex(0);
    ImGui::PushID(l.name.c_str());
    Library& library = explorer.library;
    const bool is_selected = selected(library, overview, l);
    if (ui.row(l.name + "##line", is_selected)) {
      library.select_row(l.row);
      explorer.show("plot");
    }
    ui.tip("Shows the plot of this row, and selects its best trial in the last column.");
    const TableAxis* columns = find_axis(library.axes(), overview.columns);
    const std::optional<uint32_t> row = library.selected_row();
    for (size_t i = 0; i < values.size(); ++i) {
      ImGui::TableSetColumnIndex(first + static_cast<int>(i));
      const auto cell = l.cells.find(values[i]);
      const std::string name = l.name + " " + overview.heads[values[i]];
      if (cell == l.cells.end())
        absent(ui, name, !library.overview_options().filter.empty());
      else
        draw_cell(
            explorer, ui, overview, name, cell->second,
            is_selected && columns && columns->of_row[*row] == static_cast<int32_t>(values[i]));
    }
    ImGui::TableSetColumnIndex(1);
    if (l.fastest.empty())
      ui.muted("–");
    else
      ui.fitted(l.fastest);
    if (first == 4) {
      ImGui::TableSetColumnIndex(2);
      pays_from(ui, l);
    }
    ImGui::TableSetColumnIndex(first - 1);
    right(ui, l);
    ImGui::PopID();
  }

  static void pays_from(Ui& ui, const OverviewLine& l) {
    if (l.crossover) {
      ui.text(fmt::format("N={}", *l.crossover));
      ui.tip(
          fmt::format("From N={} on {} is FASTER than the best baseline at every N that was "
                      "measured.",
                      *l.crossover, l.fastest));
    } else if (l.right == 0) {
      ui.muted("–");
      ui.tip("Nothing that is right was timed here.");
    } else {
      ui.muted("never");
      ui.tip(fmt::format("At the largest N measured {} is not FASTER than the best baseline.",
                         l.fastest.empty() ? "no strategy" : l.fastest));
    }
  }

  static void right(Ui& ui, const OverviewLine& l) {
    if (l.incorrect + l.failed > 0) {
      ui.tinted(fmt::format("✗ {} of {}", l.incorrect + l.failed, l.trials), ui.theme().bad);
      ui.tip(fmt::format("{} trials gave a wrong answer, {} crashed or hung, {} were right.",
                         l.incorrect, l.failed, l.right));
    } else if (l.right == 0) {
      ui.muted("–");
      ui.tip("No trial here ran to its end.");
    } else {
      ui.tinted("✓ all", ui.theme().good);
      ui.tip(
          fmt::format("All {} trials that ran gave the answers of the separate models.", l.right));
    }
  }

  static void absent(Ui& ui, const std::string& name, bool filtered) {
    const ImVec2 at = ImGui::GetCursorPos();
    const float width = std::max(1.0f, ImGui::GetContentRegionAvail().x);
    ImGui::SetCursorPos({at.x + std::max(0.0f, (width - ui.text_width("–")) / 2), at.y});
    ui.muted("–");
    ui.tip(name + (filtered ? ": no trial that the filter keeps is here."
                            : ": this sweep has no case here."));
  }

  static std::string about(const TrialTable& table, const Overview& overview,
                           const std::string& name, const OverviewCell& cell) {
    std::string text = name;
    if (cell.row >= 0) {
      const TrialRow& row = table.rows[static_cast<size_t>(cell.row)];
      if (overview.measure != Measure::speedup && !std::isnan(cell.value))
        text += fmt::format("\n{}: {}", table.word(row.strategy),
                            value_text(overview.measure, cell.value));
      if (!std::isnan(row.vs_best))
        text += fmt::format("\n{}: {}× over {}, 95 % between {} and {}", table.word(row.strategy),
                            short_number(row.vs_best), table.word(row.best_baseline),
                            short_number(row.vs_best_low), short_number(row.vs_best_high));
      if (row.disturbed)
        text += fmt::format("\ndisturbed: other programs took {:.0f} % of the cores",
                            100 * row.other_load);
    }
    if (cell.left_out >= 0) {
      const TrialRow& row = table.rows[static_cast<size_t>(cell.left_out)];
      text += fmt::format("\nbaseline {}: {}", table.word(row.strategy), table.word(row.status));
      if (row.needed_bytes > 0)
        text +=
            fmt::format(", {} needed by estimate", value_text(Measure::memory, row.needed_bytes));
    }
    text += fmt::format("\n{} right, {} incorrect, {} failed, {} unsupported", cell.right,
                        cell.incorrect, cell.failed, cell.unsupported);
    if (cell.oom > 0) text += fmt::format(", {} out of memory", cell.oom);
    if (cell.needed > 0)
      text += fmt::format(" ({} needed by estimate)", value_text(Measure::memory, cell.needed));
    if (cell.skipped > 0) text += fmt::format(", {} skipped by the budget", cell.skipped);
    if (cell.not_finished > 0) text += fmt::format(", {} not finished", cell.not_finished);
    return text;
  }

  static void draw_cell(Explorer& explorer, Ui& ui, const Overview& overview,
                        const std::string& name, const OverviewCell& cell, bool is_selected) {
    Library& library = explorer.library;
    const TrialTable& table = *library.table();
    const bool any = cell.row >= 0, bad = cell.incorrect + cell.failed > 0;
    if (any)
      ImGui::TableSetBgColor(ImGuiTableBgTarget_CellBg,
                             shade(ui, std::isnan(cell.value) ? 16 : overview.shade(cell.value)));
    const bool disturbed = any && table.rows[static_cast<size_t>(cell.row)].disturbed;
    const std::string text = (disturbed ? "~" : "") + cell.text(overview.measure, table);
    const ImVec2 at = ImGui::GetCursorPos();
    const float width = std::max(1.0f, ImGui::GetContentRegionAvail().x);
    const bool clicked = ImGui::InvisibleButton(name.c_str(), {width, ImGui::GetTextLineHeight()});
    ui.note_last(ItemKind::area, name, true, is_selected);
    ui.tip(about(table, overview, name, cell));
    if (is_selected)
      ImGui::GetWindowDrawList()->AddRect(ImGui::GetItemRectMin(), ImGui::GetItemRectMax(),
                                          colour(ui.theme().plot.text), 0, 0, ui.px(1.5f));
    ImGui::SetCursorPos({at.x + std::max(0.0f, (width - ui.text_width(text)) / 2), at.y});
    if (bad)
      ui.tinted(text, ui.theme().bad);
    else if (any)
      ui.text(text);
    else
      ui.muted(text);
    if (!clicked) return;
    library.select_row(static_cast<uint32_t>(any ? cell.row : cell.first));
    explorer.show("plot");
  }

  struct Head {
    std::string name, tip;
    OverviewSort sort;
  };
  std::vector<Head> heads_;
  OverviewSort sort_;
};

const bool registered =
    add_panel({"matrix", "Overview",
               "Any two axes: the best speedup, time or memory, and whether it is right.",
               Place::middle, 0, [] { return std::make_unique<MatrixPanel>(); }});

}  // namespace
}  // namespace wide::matrix_panel
