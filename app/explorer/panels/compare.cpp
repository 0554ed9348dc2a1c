#include <fmt/format.h>

#include <algorithm>

#include "app/explorer/explorer.h"
#include "data/compare.h"

namespace wide {
namespace {

class ComparePanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    const auto& sweeps = explorer.library.sweeps();
    if (sweeps.size() < 2) {
      ui.empty("Two sweeps are needed",
               "Run the same preset again, at another commit or on another machine "
               "(workbench store import brings theirs here).");
      return;
    }
    std::vector<std::string> names;
    for (const SweepRow& row : sweeps)
      names.push_back(fmt::format("{} · {} · {}", row.id, row.name, row.started));
    if (before_ == 0) {
      after_ = sweeps[0].id;
      before_ = sweeps[1].id;
      // The last one of the same name says more than whatever ran before.
      for (size_t i = sweeps.size(); i-- > 1;)
        if (sweeps[i].name == sweeps[0].name) before_ = sweeps[i].id;
    }
    const float width = std::min(ui.px(250), ImGui::GetContentRegionAvail().x * 0.4f);
    const auto pick = [&](const char* name, int64_t* id) {
      int at = -1;
      for (size_t i = 0; i < sweeps.size(); ++i)
        if (sweeps[i].id == *id) at = static_cast<int>(i);
      if (ui.choice(name, &at, names, width)) *id = sweeps[static_cast<size_t>(at)].id;
    };
    pick("before", &before_);
    ImGui::SameLine();
    ImGui::AlignTextToFramePadding();
    ui.muted("→");
    ImGui::SameLine();
    pick("after", &after_);
    start(explorer);
    if (!done_) {
      ui.muted(explorer.jobs.busy("compare") ? "comparing" : "These two cannot be compared.");
      return;
    }
    show(ui);
  }

 private:
  void start(Explorer& explorer) {
    const std::pair wanted{before_, after_};
    if (wanted == of_) return;
    of_ = wanted;
    done_.reset();
    explorer.jobs.start("compare", [this, db = explorer.library.db(), wanted]() -> Jobs::Result {
      Store store = Store::read(db);
      Comparison c = compare_sweeps(store.load(wanted.first), store.load(wanted.second));
      return [this, c = std::move(c)]() mutable { done_ = std::move(c); };
    });
  }

  void show(Ui& ui) const {
    const Comparison& c = *done_;
    int faster = 0, slower = 0;
    for (const ComparedTrial& t : c.trials) {
      faster += t.verdict == "FASTER";
      slower += t.verdict == "SLOWER";
    }
    ui.text(fmt::format("{} trials in both: {} slower, {} faster; noise between runs {:.1f} %",
                        c.trials.size(), slower, faster, 100 * c.noise));
    for (const std::string& line : c.hardware)
      ui.tinted(ui.fit("not comparable: " + line, ImGui::GetContentRegionAvail().x),
                ui.theme().warn);
    for (const Difference& d : c.environment)
      ui.fitted(fmt::format("{}: {} → {}", d.what, d.before, d.after),
                ImGui::GetContentRegionAvail().x, true);
    if (c.trials.empty() && c.statuses.empty()) {
      ui.empty("They have no trial in common", "Compare two runs of one preset.");
      return;
    }
    if (!ImGui::BeginTable("compared", 6,
                           ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg |
                               ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_NoSavedSettings))
      return;
    ImGui::TableSetupScrollFreeze(0, 1);
    ImGui::TableSetupColumn("trial", ImGuiTableColumnFlags_WidthStretch);
    static const std::pair<const char*, float> kColumns[] = {
        {"verdict", 76}, {"change", 60}, {"95 %", 108}, {"before", 66}, {"after", 66}};
    for (const auto& [name, width] : kColumns)
      ImGui::TableSetupColumn(name, ImGuiTableColumnFlags_WidthFixed, ui.px(width));
    ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
    for (int i = 0; i < 6; ++i) {
      ImGui::TableSetColumnIndex(i);
      ImGui::PushFont(ui.fonts().small_bold);
      ui.muted(ImGui::TableGetColumnName(i));
      ImGui::PopFont();
    }
    for (const StatusChange& s : c.statuses) {
      ImGui::TableNextRow();
      ImGui::TableSetColumnIndex(0);
      ui.fitted(s.key.text(), ImGui::GetContentRegionAvail().x);
      ImGui::TableSetColumnIndex(1);
      ui.fitted(s.after.empty() ? "gone" : s.after, ImGui::GetContentRegionAvail().x);
      ImGui::TableSetColumnIndex(3);
      ui.fitted("was " + (s.before.empty() ? std::string("not there") : s.before),
                ImGui::GetContentRegionAvail().x, true);
    }
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(c.trials.size()));
    while (clipper.Step())
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i)
        line(ui, c.trials[static_cast<size_t>(i)]);
    ImGui::EndTable();
  }

  static void line(Ui& ui, const ComparedTrial& t) {
    ImGui::TableNextRow();
    ImGui::TableSetColumnIndex(0);
    ui.fitted(t.key.text(), ImGui::GetContentRegionAvail().x);
    ImGui::TableSetColumnIndex(1);
    ui.tinted(t.verdict, t.verdict == "SLOWER"   ? ui.theme().bad
                         : t.verdict == "FASTER" ? ui.theme().good
                                                 : ui.theme().plot.muted);
    if (!t.why_unclear.empty()) ui.tip(t.why_unclear);
    ImGui::TableSetColumnIndex(2);
    ui.text(fmt::format("{:.2f}×", t.change.value));
    ImGui::TableSetColumnIndex(3);
    ui.muted(fmt::format("{:.2f} to {:.2f}", t.change.low, t.change.high));
    ImGui::TableSetColumnIndex(4);
    ui.text(value_text(Measure::time, t.before_ns));
    ImGui::TableSetColumnIndex(5);
    ui.text(value_text(Measure::time, t.after_ns));
  }

  int64_t before_ = 0, after_ = 0;
  std::pair<int64_t, int64_t> of_;
  std::optional<Comparison> done_;
};

const bool registered =
    add_panel({"compare", "Compare", "What changed from one sweep to another, worst first.",
               Place::middle, 3, [] { return std::make_unique<ComparePanel>(); }});

}  // namespace
}  // namespace wide
