#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/explorer/explorer.h"
#include "app/explorer/models/thin.h"
#include "data/plot/scale.h"

namespace wide {
namespace {

/// Blue where the best wide way is faster, orange where it is slower: a pair that nobody mixes up.
ImU32 shade(const Ui& ui, double speedup) {
  const double strength = std::min(1.0, std::abs(std::log2(speedup)) / 4);
  const uint32_t tone = ui.theme().plot.series[speedup >= 1 ? 0 : 1];
  return colour(tone, 0.08 + 0.5 * strength);
}

class MatrixPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    const Overview& overview = explorer.library.overview();
    if (overview.lines.empty()) {
      if (!explorer.library.listed() || explorer.jobs.busy("open"))
        ui.muted("reading");
      else
        ui.empty("Nothing to compare yet",
                 "Choose what to run on the left and press Start; results appear here case by "
                 "case.");
      return;
    }
    legend(ui, overview);
    table(explorer, ui, overview);
  }

 private:
  static void legend(Ui& ui, const Overview& overview) {
    ui.small("best right speedup over the best baseline");
    const auto sample = [&](double speedup, const char* text) {
      ImGui::SameLine(0, ui.px(14));
      const ImVec2 at = ImGui::GetCursorScreenPos();
      const float side = ui.px(12), y = at.y + ui.px(1);
      ImGui::GetWindowDrawList()->AddRectFilled({at.x, y}, {at.x + side, y + side},
                                                shade(ui, speedup), ui.px(2));
      ImGui::Dummy({side, side});
      ImGui::SameLine(0, ui.px(5));
      ui.small(text);
    };
    sample(0.25, "slower");
    sample(1, "same");
    sample(16, "faster");
    ImGui::SameLine(0, ui.px(14));
    ImGui::PushFont(ui.fonts().small);
    ui.tinted("✗ incorrect or failed", ui.theme().bad);
    ImGui::PopFont();
    ImGui::SameLine(0, ui.px(14));
    ui.small("– nothing ran");
    ImGui::SameLine(0, ui.px(14));
    ui.small("~ disturbed by other programs");
    if (overview.ns.size() > kMostNs) {
      ImGui::SameLine(0, ui.px(14));
      ui.small(fmt::format("{} of {} Ns", kMostNs, overview.ns.size()));
    }
  }

  static void table(Explorer& explorer, Ui& ui, const Overview& overview) {
    const std::vector<int64_t> ns = thinned(overview.ns);
    const int columns = 4 + static_cast<int>(ns.size());
    constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY |
                                       ImGuiTableFlags_SizingFixedFit |
                                       ImGuiTableFlags_NoSavedSettings;
    if (!ImGui::BeginTable("matrix", columns, kFlags)) return;
    float widest = ui.px(110);
    for (const OverviewLine& line : overview.lines)
      widest = std::max(widest, ui.text_width(line.target) + ui.px(4));
    ImGui::TableSetupScrollFreeze(1, 1);
    const auto column = [](const std::string& name, float width) {
      ImGui::TableSetupColumn(name.c_str(), ImGuiTableColumnFlags_WidthFixed, width);
    };
    column("target", widest);
    column("fastest", ui.px(104));
    column("pays from", ui.px(64));
    column("right", ui.px(70));
    for (const int64_t n : ns) column(fmt::format("N={}", n), ui.px(60));
    ui.table_heads();
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(overview.lines.size()));
    while (clipper.Step())
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
        line(explorer, ui, ns, overview.lines[static_cast<size_t>(i)], columns);
    ImGui::EndTable();
  }

  static void line(Explorer& explorer, Ui& ui, const std::vector<int64_t>& ns,
                   const OverviewLine& l, int columns) {
    ImGui::TableNextRow();
    ImGui::TableSetColumnIndex(0);
    ImGui::PushID(l.target.c_str());
    Library& library = explorer.library;
    const bool selected = library.group() < library.groups().size() &&
                          library.groups()[library.group()].target == l.target;
    if (ui.row(l.target, selected)) {
      library.set_group(l.group);
      explorer.show("plot");
    }
    for (int c = 4; c < columns; ++c) {
      ImGui::TableSetColumnIndex(c);
      const int64_t n = ns[static_cast<size_t>(c - 4)];
      const auto cell = l.cells.find(n);
      if (cell != l.cells.end()) draw_cell(explorer, ui, l, n, cell->second);
    }
    ImGui::TableSetColumnIndex(1);
    if (l.fastest.empty())
      ui.muted("–");
    else
      ui.fitted(l.fastest, ImGui::GetContentRegionAvail().x);
    ImGui::TableSetColumnIndex(2);
    if (l.crossover)
      ui.text(fmt::format("N={}", *l.crossover));
    else
      ui.muted("never");
    ImGui::TableSetColumnIndex(3);
    if (l.incorrect + l.failed > 0)
      ui.tinted(fmt::format("✗ {} of {}", l.incorrect + l.failed, l.trials), ui.theme().bad);
    else
      ui.tinted("✓ all", ui.theme().good);
    ImGui::PopID();
  }

  static void draw_cell(Explorer& explorer, Ui& ui, const OverviewLine& l, int64_t n,
                        const OverviewCell& cell) {
    const bool any = cell.row >= 0, bad = cell.incorrect + cell.failed > 0;
    if (any) ImGui::TableSetBgColor(ImGuiTableBgTarget_CellBg, shade(ui, cell.speedup));
    const TrialRow* best =
        any ? &explorer.library.table()->rows[static_cast<size_t>(cell.row)] : nullptr;
    const std::string text = std::string(any && best->disturbed ? "~" : "") +
                             (any   ? short_number(cell.speedup) + "×"
                              : bad ? ""
                                    : "–") +
                             std::string(bad ? (any ? " ✗" : "✗") : "");
    const std::string name = fmt::format("{} N={}", l.target, n);
    const ImVec2 at = ImGui::GetCursorPos();
    const float width = std::max(1.0f, ImGui::GetContentRegionAvail().x);
    const bool clicked = ImGui::InvisibleButton(name.c_str(), {width, ImGui::GetTextLineHeight()});
    ui.note_last(ItemKind::area, name);
    if (ImGui::IsItemHovered()) {
      std::string about = name;
      if (any) {
        const TrialTable& table = *explorer.library.table();
        const TrialRow& row = *best;
        about += fmt::format("\n{}: {}x over {}, 95 % between {} and {}", table.word(row.strategy),
                             short_number(row.vs_best), table.word(row.best_baseline),
                             short_number(row.vs_best_low), short_number(row.vs_best_high));
        if (row.disturbed)
          about += fmt::format("\ndisturbed: other programs took {:.0f} % of the cores",
                               100 * row.other_load);
      }
      about += fmt::format("\n{} right, {} incorrect, {} failed, {} unsupported", cell.right,
                           cell.incorrect, cell.failed, cell.unsupported);
      ui.tip(about);
    }
    ImGui::SetCursorPos({at.x + std::max(0.0f, (width - ui.text_width(text)) / 2), at.y});
    if (bad)
      ui.tinted(text, ui.theme().bad);
    else if (any)
      ui.text(text);
    else
      ui.muted(text);
    if (!clicked) return;
    Library& library = explorer.library;
    library.set_group(l.group);
    if (any) library.select_row(static_cast<uint32_t>(cell.row));
    explorer.show("plot");
  }
};

const bool registered = add_panel(
    {"matrix", "Overview", "Every target by N: the best speedup, and whether it is right.",
     Place::middle, 0, [] { return std::make_unique<MatrixPanel>(); }});

}  // namespace
}  // namespace wide
