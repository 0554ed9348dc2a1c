#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/explorer/explorer.h"
#include "app/explorer/models/thin.h"
#include "data/plot/scale.h"

namespace wide::matrix_panel {
namespace {

/// Blue where it is better than 1, orange where worse: a pair that nobody mixes up.
ImU32 shade(const Ui& ui, double speedup) {
  const double strength = std::min(1.0, std::abs(std::log2(speedup)) / 4);
  const uint32_t tone = ui.theme().plot.series[speedup >= 1 ? 0 : 1];
  return colour(tone, 0.08 + 0.5 * strength);
}

/// What the cells may be coloured by.
constexpr Measure kColours[] = {Measure::speedup, Measure::time, Measure::memory};

/// The widest head of a column that is not cut off.
constexpr float kWidestHead = 150;

class MatrixPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    Library& library = explorer.library;
    if (!library.table() || library.table()->rows.empty()) {
      if (!library.listed() || explorer.jobs.busy("open"))
        ui.muted("reading");
      else
        ui.empty("Nothing to compare yet",
                 "Choose what to run on the left and press Start; results appear here case by "
                 "case.");
      return;
    }
    const Overview& overview = library.overview();
    tools(explorer, ui, overview);
    legend(ui, overview);
    if (overview.lines.empty())
      ui.empty("No trial has both of these axes", "Choose others above.");
    else
      table(explorer, ui, overview);
  }

 private:
  static void tools(Explorer& explorer, Ui& ui, const Overview& overview) {
    Library& library = explorer.library;
    OverviewOptions options = library.overview_options();
    const auto [rows, columns] = matrix_axes(library.axes());
    axis(ui, library, "rows", rows, overview.rows, &options.rows);
    ImGui::SameLine();
    ImGui::AlignTextToFramePadding();
    ui.muted("by");
    ImGui::SameLine();
    axis(ui, library, "columns", columns, overview.columns, &options.columns);
    std::vector<std::string> names;
    int at = 0;
    for (const Measure measure : kColours) {
      if (measure == options.measure) at = static_cast<int>(names.size());
      names.emplace_back(to_string(measure));
    }
    ImGui::SameLine();
    if (ui.choice("colour", &at, names, ui.px(92))) options.measure = kColours[at];
    for (const OverviewHold& hold : overview.holds) held(ui, hold, &options);
    if (options == library.overview_options()) return;
    // Two axes differ: who takes the other one's gets them swapped.
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

  /// Every axis that has several values; the first entry leaves it to the sweep.
  static void axis(Ui& ui, const Library& library, const std::string& name,
                   const std::string& suggested, const std::string& shown, std::string* chosen) {
    std::vector<std::string> names{"auto: " + suggested}, values{""};
    int at = 0;
    for (const TableAxis& a : library.axes()) {
      if (!a.several() && a.name != shown) continue;
      if (a.name == *chosen) at = static_cast<int>(names.size());
      names.push_back(a.name);
      values.push_back(a.name);
    }
    if (ui.choice(name, &at, names, ui.px(112))) *chosen = values[static_cast<size_t>(at)];
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
    if (!ui.choice("held " + hold.axis, &at, names, ui.px(112))) return;
    options->held.erase(hold.axis);
    if (at > 0) options->held[hold.axis] = hold.values[static_cast<size_t>(at) - 1];
  }

  static void legend(Ui& ui, const Overview& overview) {
    const bool speedup = overview.measure == Measure::speedup;
    ui.small(speedup                             ? "best right speedup over the best baseline"
             : overview.measure == Measure::time ? "least time of a call that is right"
                                                 : "least peak memory of a call that is right");
    const auto sample = [&](double value, const char* text) {
      ImGui::SameLine(0, ui.px(14));
      const ImVec2 at = ImGui::GetCursorScreenPos();
      const float side = ui.px(12), y = at.y + ui.px(1);
      ImGui::GetWindowDrawList()->AddRectFilled({at.x, y}, {at.x + side, y + side},
                                                shade(ui, value), ui.px(2));
      ImGui::Dummy({side, side});
      ImGui::SameLine(0, ui.px(5));
      ui.small(text);
    };
    sample(1.0 / 16, speedup ? "slower" : "most");
    sample(1, speedup ? "same" : "middle");
    sample(16, speedup ? "faster" : "least");
    const auto next = [&](const std::string& text, uint32_t tone) {
      ImGui::PushFont(ui.fonts().small);
      const float width = ui.text_width(text);
      ui.beside(width);
      ui.tinted(text, tone);
      ImGui::PopFont();
    };
    const uint32_t muted = ui.theme().plot.muted;
    int oom = 0, skipped = 0, fits = 0;
    for (const OverviewLine& l : overview.lines)
      for (const auto& [value, cell] : l.cells) {
        oom += cell.oom;
        skipped += cell.skipped;
        fits += cell.row >= 0 && std::isnan(cell.value) && cell.left_out >= 0;
      }
    next("✗ incorrect or failed", ui.theme().bad);
    next("– nothing ran", muted);
    if (oom > 0) next("OOM more than the memory", muted);
    if (skipped > 0) next("skipped by the budget", muted);
    if (fits > 0) next("fits where no baseline does", muted);
    next("~ disturbed by other programs", muted);
    if (overview.heads.size() > kMostColumns)
      next(fmt::format("{} of {} columns", kMostColumns, overview.heads.size()), muted);
  }

  static void table(Explorer& explorer, Ui& ui, const Overview& overview) {
    std::vector<size_t> values;
    for (size_t v = 0; v < overview.heads.size(); ++v) values.push_back(v);
    values = thinned(values);
    const bool along_n = overview.columns == "N" && overview.measure == Measure::speedup;
    const int first = along_n ? 4 : 3, columns = first + static_cast<int>(values.size());
    constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY |
                                       ImGuiTableFlags_SizingFixedFit |
                                       ImGuiTableFlags_NoSavedSettings;
    // Of another id where the columns are others: ImGui keeps their widths by it.
    const std::string id =
        fmt::format("matrix {} {}", overview.columns, to_string(overview.measure));
    if (!ImGui::BeginTable(id.c_str(), columns, kFlags)) return;
    float widest = ui.px(110);
    for (const OverviewLine& line : overview.lines)
      widest = std::max(widest, ui.text_width(line.name) + ui.px(4));
    ImGui::TableSetupScrollFreeze(1, 1);
    const auto column = [](const std::string& name, float width) {
      ImGui::TableSetupColumn(name.c_str(), ImGuiTableColumnFlags_WidthFixed, width);
    };
    column(overview.rows, widest);
    column(overview.measure == Measure::memory ? "least" : "fastest", ui.px(104));
    if (along_n) column("pays from", ui.px(64));
    column("right", ui.px(70));
    for (const size_t v : values)
      column(overview.heads[v], std::clamp(ui.text_width(overview.heads[v]) + ui.px(4), ui.px(64),
                                           ui.px(kWidestHead)));
    ui.table_heads();
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(overview.lines.size()));
    while (clipper.Step())
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
        line(explorer, ui, overview, values, overview.lines[static_cast<size_t>(i)], first);
    ImGui::EndTable();
  }

  static bool selected(const Library& library, const Overview& overview, const OverviewLine& l) {
    if (library.group() >= library.groups().size()) return false;
    const Group& group = library.groups()[library.group()];
    const TableAxis* rows = find_axis(library.axes(), overview.rows);
    return rows && group.axis != overview.rows &&
           rows->of_row[group.rows.front()] == static_cast<int32_t>(l.value);
  }

  static void line(Explorer& explorer, Ui& ui, const Overview& overview,
                   const std::vector<size_t>& values, const OverviewLine& l, int first) {
    ImGui::TableNextRow();
    ImGui::TableSetColumnIndex(0);
    ImGui::PushID(l.name.c_str());
    Library& library = explorer.library;
    if (ui.row(l.name, selected(library, overview, l))) {
      library.set_group_of(l.row);
      explorer.show("plot");
    }
    for (size_t i = 0; i < values.size(); ++i) {
      ImGui::TableSetColumnIndex(first + static_cast<int>(i));
      const auto cell = l.cells.find(values[i]);
      if (cell != l.cells.end())
        draw_cell(explorer, ui, overview, l.name + " " + overview.heads[values[i]], cell->second);
    }
    ImGui::TableSetColumnIndex(1);
    if (l.fastest.empty())
      ui.muted("–");
    else
      ui.fitted(l.fastest, ImGui::GetContentRegionAvail().x);
    if (first == 4) {
      ImGui::TableSetColumnIndex(2);
      if (l.crossover)
        ui.text(fmt::format("N={}", *l.crossover));
      else
        ui.muted("never");
    }
    ImGui::TableSetColumnIndex(first - 1);
    if (l.incorrect + l.failed > 0)
      ui.tinted(fmt::format("✗ {} of {}", l.incorrect + l.failed, l.trials), ui.theme().bad);
    else
      ui.tinted("✓ all", ui.theme().good);
    ImGui::PopID();
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
        text += fmt::format("\n{}: {}x over {}, 95 % between {} and {}", table.word(row.strategy),
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
    return text;
  }

  static void draw_cell(Explorer& explorer, Ui& ui, const Overview& overview,
                        const std::string& name, const OverviewCell& cell) {
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
    ui.note_last(ItemKind::area, name);
    if (ImGui::IsItemHovered()) ui.tip(about(table, overview, name, cell));
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
};

const bool registered =
    add_panel({"matrix", "Overview",
               "Any two axes: the best speedup, time or memory, and whether it is right.",
               Place::middle, 0, [] { return std::make_unique<MatrixPanel>(); }});

}  // namespace
}  // namespace wide::matrix_panel
