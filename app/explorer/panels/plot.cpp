#include <fmt/format.h>

#include <algorithm>

#include "app/explorer/explorer.h"
#include "app/explorer/ui/plot_view.h"
#include "app/explorer/ui/samples.h"
#include "data/reports/report_format.h"

namespace wide::plot_panel {
namespace {

constexpr const char* kSigns =
    "Each curve is a strategy, a way of computing all models as one.\n"
    "*, bold: what the engine takes when nothing is forced.\n"
    "band: the 95 % interval of one curve, the one under the mouse or the selected one.\n"
    "ring: from here on it is faster than the best baseline at every larger N.\n"
    "cross: incorrect; its time counts for nothing, and it stands below the plot.\n"
    "line at 1×: as fast as the best way of running the models separately.\n"
    "dashed y = N: N models in the time of one.\n"
    "tolerance: the largest error that counts as right; separate models: their own error.";

class PlotPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    Library& library = explorer.library;
    if (!ui.filled(!library.groups().empty(), !library.listed() || explorer.jobs.busy("open"),
                   "Nothing to plot yet",
                   "Run a sweep on the left, or open one from the tab Sweeps."))
      return;
    tools(explorer, ui);
    const Figure* figure = library.figure();
    if (!figure) {
      ui.muted("drawing");
      return;
    }
    const std::string why = library.why();
    const float below = (why.empty() ? 0 : ui.px(24)) + (figure->notes.empty() ? 0 : ui.px(24));
    ImGui::BeginChild("figure", {0, -std::max(1.0f, below)}, false,
                      ImGuiWindowFlags_HorizontalScrollbar);
    if (figure->curves.empty()) {
      ui.empty("No trial of this target could be timed",
               "The reasons stand below and in the table "
               "of trials.");
    } else if (const auto picked =
                   view_.draw(ui, *figure, selected(library),
                              [&](const PickedPoint& p) { samples(library, ui, p); })) {
      if (const auto row = row_of(library, *picked)) library.select_row(*row);
    }
    ImGui::EndChild();
    if (!why.empty()) ui.fitted(why);
    if (!figure->notes.empty()) ui.fitted(fmt::format("{}", fmt::join(figure->notes, " · ")), true);
  }

 private:
  /// The selected trial's point in this plot.
  static std::optional<PickedPoint> selected(const Library& library) {
    const std::optional<PointKey>& point = library.point();
    if (!point) return std::nullopt;
    const Group& group = library.groups()[library.group()];
    for (const uint32_t index : group.rows) {
      const TrialRow& row = library.table()->rows[index];
      if (row.case_id != point->case_id || library.key_of(index) != point) continue;
      return PickedPoint{(row.baseline ? "baseline " : "") + point->strategy, point->mode,
                         group.place(*library.table(), row)};
    }
    return std::nullopt;
  }

  static std::optional<uint32_t> row_of(const Library& library, const PickedPoint& picked) {
    const TrialTable& table = *library.table();
    const bool baseline = picked.strategy.rfind("baseline ", 0) == 0;
    const std::string name = baseline ? picked.strategy.substr(9) : picked.strategy;
    const Group& group = library.groups()[library.group()];
    for (const uint32_t index : group.rows) {
      const TrialRow& row = table.rows[index];
      if (group.place(table, row) == picked.place && row.baseline == baseline &&
          table.word(row.strategy) == name && table.word(row.mode) == picked.mode)
        return index;
    }
    return std::nullopt;
  }

  /// Draws the samples of the point under the mouse.
  static void samples(Library& library, Ui& ui, const PickedPoint& point) {
    const auto row = row_of(library, point);
    const PointDetail* detail = row ? library.glance(*library.key_of(*row)) : nullptr;
    const Timing* timing = detail ? detail->timing() : nullptr;
    if (!timing || timing->samples_ns.empty()) return;
    ui.muted(fmt::format("{} samples", timing->samples_ns.size()));
    draw_samples(ui, *timing, ui.px(220), ui.px(56));
  }

  void tools(Explorer& explorer, Ui& ui) {
    Library& library = explorer.library;
    int at = static_cast<int>(library.group());
    const float room = ImGui::GetContentRegionAvail().x;
    if (ui.choice("target and shape", &at, library.group_names(), std::min(ui.px(270), room * 0.4f),
                  "Which target and shape is plotted; its best trial becomes the selected one."))
      library.choose_group(static_cast<size_t>(at));
    FigureOptions options = library.options();
    ui.beside(ui.px(112));
    if (ui.choose(
            "measure", &options.measure, measures(), [](Measure m) { return to_string(m); },
            ui.px(112),
            "What the left plot shows: speedup, time, models per second, memory, share of the "
            "machine's peak, or the time of the first call.")) {
      explorer.settings.measure = to_string(options.measure);
      library.set_options(options);
    }
    along(explorer, ui);
    if (options.measure == Measure::speedup) {
      int over = options.over_loop ? 1 : 0;
      ui.beside(ui.px(100));
      if (ui.choice(
              "over", &over, {"over best", "over loop"}, ui.px(100),
              "What the speedup is over: the fastest way of running the models separately, or "
              "a plain loop over them.")) {
        options.over_loop = explorer.settings.over_loop = over == 1;
        library.set_options(options);
      }
    }
    if (ui.next_button("Fit", view_.zoomed(), "All of it (double click on the plot)")) view_.fit();
    if (!view_.hidden().empty()) {
      if (ui.next_button("Show all", true, "Shows the curves that the legend hides"))
        view_.show_all();
    }
    if (ui.next_button("Export", library.figure() != nullptr,
                       "The plot as a picture, or the whole sweep as a report"))
      ImGui::OpenPopup("export");
    exports(explorer, ui);
    ui.next_label("signs", kSigns);
  }

  /// The choice of the plot's axis: N, or an axis of the shapes with positive values.
  static void along(Explorer& explorer, Ui& ui) {
    Library& library = explorer.library;
    std::vector<std::string> names{""};
    for (const TableAxis& axis : library.axes())
      if (axis.name == "N" || (axis.several() && axis.positive())) names.push_back(axis.name);
    const auto text = [&](const std::string& name) {
      return "along " + (name.empty() ? plot_axis(library.axes()) + " (auto)" : name);
    };
    std::string chosen = library.axis();
    ui.beside(ui.px(118));
    if (!ui.choose("along", &chosen, names, text, ui.px(118),
                   "What the horizontal axis is: the number of models, or a size of the target."))
      return;
    explorer.settings.axis = chosen;
    library.set_axis(chosen);
  }

  void exports(Explorer& explorer, Ui& ui) {
    if (!ImGui::BeginPopup("export")) return;
    Library& library = explorer.library;
    const SweepReport& head = library.head();
    if (library.figure())
      explorer.plot_entries(ui, *library.figure(), view_.box(),
                            library.groups()[library.group()].target,
                            "sweep " + head.id + " · " + head.environment.cpu);
    ImGui::Separator();
    // Entries that save the whole sweep in each registered report format.
    for (const ReportFormat& format : report_formats()) {
      if (!ui.row("Sweep as " + format.name, false)) {
        ui.tip(format.summary);
        continue;
      }
      explorer.save_as(format.name, fmt::format("sweep-{}.{}", library.sweep(), format.name),
                       [&explorer, format](const std::string& path) {
                         const Library& from = explorer.library;
                         explorer.write_later(path, [db = from.db(), sweep = from.sweep(),
                                                     options = from.options(), format] {
                           return format.text(Store::read(db).load(sweep), options);
                         });
                       });
    }
    ImGui::EndPopup();
  }

  PlotView view_;
};

const bool registered = add_panel(
    {"plot", "Speedup", "Speedup along N, or another axis, with its 95 % band, beside the error.",
     Place::middle, 1, [] { return std::make_unique<PlotPanel>(); }});

}  // namespace
}  // namespace wide::plot_panel
