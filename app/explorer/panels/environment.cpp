#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "app/explorer/explorer.h"
#include "app/version.h"
#include "data/machine/peaks.h"
#include "data/one_line.h"
#include "data/reports/sweep/report_tables.h"
#include "data/text.h"

namespace wide::environment_panel {
namespace {

/// A value for reading: bytes and rates with scaled units.
std::string readable(const std::string& what, const std::string& value) {
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != 0) return value;
  if (what.find("bytes_per_s") != std::string::npos) return bytes_text(number) + "/s";
  if (what.find("bytes") != std::string::npos) return bytes_text(number);
  if (what.find("flops_per_s") != std::string::npos)
    return fmt::format("{:.0f} GFLOP/s", number / 1e9);
  return value;
}

/// Facts that are no property of the machine or the program, such as load.
bool changes_by_itself(const std::string& what) {
  return what == "date" || what == "command" || what == "cpu load" || what == "cpu mhz" ||
         what.find("temperature") != std::string::npos || what.find("peaks") == 0;
}

class EnvironmentPanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    // While a trial is timed nothing else may run.
    const uint64_t changes = explorer.library.changes();
    if (!read_at_ || (*read_at_ != changes && !explorer.run.progress().timing)) {
      read_at_ = changes;
      explorer.jobs.start("environment", [this, db = explorer.library.db()]() -> Jobs::Result {
        Environment e = capture_environment("workbench", version(), git_state());
        ReportTable here = environment_table(e);
        std::string store = "none yet";
        try {
          const StoreFacts f = Store::read(db).facts();
          store = fmt::format("schema {}, {}: {} sweeps, {} trials, {} samples, {} fusions",
                              f.schema, bytes_text(static_cast<double>(f.bytes)), f.sweeps,
                              f.trials, f.samples, f.fusions);
        } catch (const std::exception& error) {
          store = one_line(error);
        }
        return [this, here = std::move(here), store] {
          here_ = here;
          store_ = store;
        };
      });
    }
    const bool any = explorer.library.sweep() > 0;
    ui.muted("store");
    ImGui::SameLine(ui.px(60));
    ui.fitted(store_.empty() ? "reading" : store_);
    ui.muted("cache");
    ImGui::SameLine(ui.px(60));
    ui.fitted(cache_folder());
    for (const std::string& change : explorer.library.head().changes)
      ui.tinted(ui.fit("changed while it ran: " + change, ImGui::GetContentRegionAvail().x),
                ui.theme().warn);
    const ReportTable then =
        any ? environment_table(chosen_machine(ui, explorer.library.head())) : ReportTable{};
    if (!ImGui::BeginTable("environment", any ? 3 : 2,
                           ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg |
                               ImGuiTableFlags_SizingStretchSame | ImGuiTableFlags_NoSavedSettings,
                           ui.room(110)))
      return;
    ImGui::TableSetupScrollFreeze(0, 1);
    ImGui::TableSetupColumn("what", ImGuiTableColumnFlags_WidthFixed,
                            std::min(ui.px(190), 0.4f * ImGui::GetContentRegionAvail().x));
    ImGui::TableSetupColumn("now");
    if (any) ImGui::TableSetupColumn(fmt::format("sweep {}", explorer.library.sweep()).c_str());
    ui.table_heads({"What is described", "This machine, as it is now",
                    "The machine as the sweep that is open found it"});
    for (const auto& row : here_.rows) line(ui, row[0].text, row[1].text, then, any);
    for (const auto& row : then.rows) {
      const bool known = std::any_of(here_.rows.begin(), here_.rows.end(),
                                     [&](const auto& r) { return r[0].text == row[0].text; });
      if (!known) line(ui, row[0].text, "", then, any);
    }
    ImGui::EndTable();
  }

  void store_replaced() override { read_at_.reset(); }

 private:
  /// The machine whose facts are shown; draws a list of machines if the sweep has several.
  const Environment& chosen_machine(Ui& ui, const SweepReport& sweep) {
    const std::vector<const Environment*> machines = machines_of(sweep);
    std::vector<std::string> names;
    int at = 0;
    for (const Environment* machine : machines) {
      names.push_back(machine_name(*machine));
      if (names.back() == machine_) at = static_cast<int>(names.size()) - 1;
    }
    if (machines.size() > 1) {
      ui.muted(fmt::format("{} machines", machines.size()));
      ImGui::SameLine();
      if (ui.choice("machine", &at, names, ImGui::GetContentRegionAvail().x,
                    "The machine of the sweep whose facts are in the last column"))
        machine_ = names[static_cast<size_t>(at)];
    }
    return *machines[static_cast<size_t>(at)];
  }

  static void line(Ui& ui, const std::string& what, const std::string& now, const ReportTable& then,
                   bool any) {
    std::string before;
    for (const auto& row : then.rows)
      if (row[0].text == what) before = row[1].text;
    const bool differs = any && now != before && !now.empty() && !changes_by_itself(what);
    ImGui::TableNextRow();
    ui.cell(0, what, true);
    ui.cell(1, readable(what, now));
    if (!any) return;
    ImGui::TableSetColumnIndex(2);
    if (differs)
      ui.tinted(
          ui.fit(before.empty() ? "–" : readable(what, before), ImGui::GetContentRegionAvail().x),
          ui.theme().warn);
    else
      ui.fitted(readable(what, before));
  }

  std::optional<uint64_t> read_at_;  // `Library::changes` when last read
  ReportTable here_;
  std::string store_, machine_;
};

const bool registered =
    add_panel({"environment", "Environment", "This machine, and the one a sweep was measured on.",
               Place::middle, 5, [] { return std::make_unique<EnvironmentPanel>(); }});

}  // namespace
}  // namespace wide::environment_panel
