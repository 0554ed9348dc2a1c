#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "app/explorer/explorer.h"
#include "data/reports/compare.h"

namespace wide::compare_panel {
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
      after_ = {sweeps[0].id};
      before_ = sweeps[1].id;
      // Proposed is the last sweep of the same name, rather than whichever ran before.
      for (size_t i = sweeps.size(); i-- > 1;)
        if (sweeps[i].name == sweeps[0].name) before_ = sweeps[i].id;
    }
    choose(ui, names, sweeps);
    start(explorer);
    if (done_.empty()) {
      ui.muted(explorer.jobs.busy("compare") ? "comparing" : "These cannot be compared.");
      return;
    }
    if (done_.size() == 1)
      show(ui, done_.front());
    else
      show_all(ui);
  }

 private:
  static constexpr size_t kMost = 5;  // sweeps beside one: as many columns as a window holds

  void choose(Ui& ui, const std::vector<std::string>& names, const std::vector<SweepRow>& sweeps) {
    const float width = std::min(ui.px(250), ImGui::GetContentRegionAvail().x * 0.4f);
    const auto pick = [&](const std::string& name, int64_t* id) {
      int at = -1;
      for (size_t i = 0; i < sweeps.size(); ++i)
        if (sweeps[i].id == *id) at = static_cast<int>(i);
      if (ui.choice(name, &at, names, width, "One of the sweeps that are compared."))
        *id = sweeps[static_cast<size_t>(at)].id;
    };
    pick("before", &before_);
    ImGui::SameLine();
    ImGui::AlignTextToFramePadding();
    ui.muted("→");
    for (size_t i = 0; i < after_.size(); ++i) {
      ui.beside(width);
      pick(i == 0 ? "after" : fmt::format("after {}", i + 1), &after_[i]);
    }
    const auto button = [&](const char* label, bool enabled, const char* tip) {
      ui.beside(ui.text_width(label) + 2 * ImGui::GetStyle().FramePadding.x);
      return ui.button(label, Look::plain, enabled, tip);
    };
    if (button("Another", after_.size() < std::min(kMost, sweeps.size() - 1),
               "Compares one more sweep with the first")) {
      const auto unused = [&](const SweepRow& row) {
        return row.id != before_ && std::find(after_.begin(), after_.end(), row.id) == after_.end();
      };
      const auto next = std::find_if(sweeps.begin(), sweeps.end(), unused);
      after_.push_back(next == sweeps.end() ? sweeps.front().id : next->id);
    }
    if (after_.size() > 1 && button("Fewer", true, "Takes the last one away")) after_.pop_back();
  }

  void start(Explorer& explorer) {
    const std::pair wanted{before_, after_};
    if (wanted == of_) return;
    of_ = wanted;
    done_.clear();
    explorer.jobs.start("compare", [this, db = explorer.library.db(), wanted]() -> Jobs::Result {
      Store store = Store::read(db);
      const SweepReport before = store.load(wanted.first);
      std::vector<Comparison> all;
      for (const int64_t after : wanted.second)
        all.push_back(compare_sweeps(before, store.load(after)));
      std::vector<Line> lines = lines_of(all);
      return [this, all = std::move(all), lines = std::move(lines)]() mutable {
        done_ = std::move(all);
        lines_ = std::move(lines);
      };
    });
  }

  /// A trial with what became of it in each of the sweeps; null where it is not.
  struct Line {
    TrialKey key;
    std::vector<std::optional<ComparedTrial>> changes;
    double worst = std::numeric_limits<double>::infinity();
  };

  /// Worst first.
  static std::vector<Line> lines_of(const std::vector<Comparison>& all) {
    std::map<TrialKey, Line> by_key;
    for (size_t i = 0; i < all.size(); ++i)
      for (const ComparedTrial& t : all[i].trials) {
        Line& line = by_key[t.key];
        line.key = t.key;
        line.changes.resize(all.size());
        line.changes[i] = t;
        line.worst = std::min(line.worst, t.change.value);
      }
    std::vector<Line> lines;
    for (auto& [key, line] : by_key) lines.push_back(std::move(line));
    std::stable_sort(lines.begin(), lines.end(),
                     [](const Line& a, const Line& b) { return a.worst < b.worst; });
    return lines;
  }

  static uint32_t tone(const Ui& ui, const ComparedTrial& t) {
    return t.verdict == "SLOWER"   ? ui.theme().bad
           : t.verdict == "FASTER" ? ui.theme().good
                                   : ui.theme().plot.muted;
  }

  static void summary(Ui& ui, const Comparison& c, const std::string& of) {
    int faster = 0, slower = 0;
    for (const ComparedTrial& t : c.trials) {
      faster += t.verdict == "FASTER";
      slower += t.verdict == "SLOWER";
    }
    const float room = ImGui::GetContentRegionAvail().x;
    ui.fitted(fmt::format("{}{} trials in both: {} slower, {} faster; noise between runs {:.1f} %",
                          of, c.trials.size(), slower, faster, 100 * c.noise),
              room);
    for (const std::string& line : c.hardware)
      ui.tinted(ui.fit("not comparable: " + line, room), ui.theme().warn);
    for (const Difference& d : c.environment)
      ui.fitted(fmt::format("{}: {} → {}", d.what, d.before, d.after), room, true);
  }

  /// Several sweeps against one: a column each.
  void show_all(Ui& ui) const {
    for (size_t i = 0; i < done_.size(); ++i)
      summary(ui, done_[i], fmt::format("sweep {}: ", of_.second[i]));
    if (lines_.empty()) {
      ui.empty("They have no trial in common", "Compare runs of one preset.");
      return;
    }
    const int columns = static_cast<int>(done_.size()) + 1;
    if (!ImGui::BeginTable("compared with several", columns,
                           ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg |
                               ImGuiTableFlags_SizingFixedFit | ImGuiTableFlags_NoSavedSettings))
      return;
    ImGui::TableSetupScrollFreeze(0, 1);
    ImGui::TableSetupColumn("trial", ImGuiTableColumnFlags_WidthStretch);
    for (const int64_t after : of_.second)
      ImGui::TableSetupColumn(fmt::format("sweep {}", after).c_str(),
                              ImGuiTableColumnFlags_WidthFixed, ui.px(128));
    ui.table_heads();
    ImGuiListClipper clipper;
    clipper.Begin(static_cast<int>(lines_.size()));
    while (clipper.Step())
      for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
        const Line& line = lines_[static_cast<size_t>(i)];
        ImGui::TableNextRow();
        ImGui::TableSetColumnIndex(0);
        ui.fitted(line.key.text(), ImGui::GetContentRegionAvail().x);
        for (int c = 1; c < columns; ++c) {
          ImGui::TableSetColumnIndex(c);
          const auto& change = line.changes[static_cast<size_t>(c - 1)];
          if (!change) {
            ui.muted("not there");
            continue;
          }
          ui.tinted(fmt::format("{:.2f}× {}", change->change.value, change->verdict),
                    tone(ui, *change));
          ui.tip(fmt::format("95 % from {:.2f} to {:.2f}; {} before, {} after{}",
                             change->change.low, change->change.high,
                             value_text(Measure::time, change->before_ns),
                             value_text(Measure::time, change->after_ns),
                             change->why_unclear.empty() ? "" : "; " + change->why_unclear));
        }
      }
    ImGui::EndTable();
  }

  static void show(Ui& ui, const Comparison& c) {
    summary(ui, c, "");
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
    ui.table_heads();
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
    ui.tinted(t.verdict, tone(ui, t));
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

  int64_t before_ = 0;
  std::vector<int64_t> after_;
  std::pair<int64_t, std::vector<int64_t>> of_;  // what was compared last
  std::vector<Comparison> done_;                 // of `before_` with each of `after_`
  std::vector<Line> lines_;
};

const bool registered =
    add_panel({"compare", "Compare", "What changed from one sweep to others, worst first.",
               Place::middle, 3, [] { return std::make_unique<ComparePanel>(); }});

}  // namespace
}  // namespace wide::compare_panel
