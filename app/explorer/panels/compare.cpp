#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/explorer/explorer.h"
#include "app/explorer/models/trials/compare.h"
#include "app/explorer/ui/compare_plot.h"
#include "app/results/compare_text.h"
#include "data/plot/scale.h"
#include "data/store/sweeps/trial_history.h"

namespace wide::compare_panel {
namespace {

constexpr size_t kMost = 5;  // most sweeps to compare one with: as many columns as fit
constexpr const char* kWrong = "SLOWER";

constexpr const char* kChangeTip =
    "How many times as fast as before, by the time over those of the baselines of the same case: "
    "what slows the whole machine cancels.";
constexpr const char* kIntervalTip =
    "With probability 99 % all intervals of the comparison hold at once. Runs scatter by more than "
    "the samples of one say; how much, all trials together show.";
constexpr const char* kVerdictTip =
    "FASTER or SLOWER where the interval is sure of it, SAME within 3 %, else UNCLEAR. None: the "
    "trial is not in one of the sweeps, or ended otherwise.";

class ComparePanel : public Panel {
 public:
  void draw(Explorer& explorer, Ui& ui) override {
    const auto& sweeps = explorer.library.sweeps();
    if (!ui.filled(sweeps.size() >= 2, !explorer.library.listed(), "Two sweeps are needed",
                   "Run the same preset again, at another commit or on another machine "
                   "(workbench store import brings theirs here)."))
      return;
    std::vector<std::string> names;
    for (const SweepRow& row : sweeps)
      names.push_back(fmt::format("{} · {} · {}", row.id, row.name, row.started));
    propose(sweeps, explorer.library.asked());
    choose(ui, names, sweeps);
    start(explorer);
    follow(explorer);
    if (done_.empty()) {
      ui.muted(explorer.jobs.busy("compare") ? "comparing" : "These cannot be compared.");
      return;
    }
    for (size_t i = 0; i < done_.size(); ++i)
      summary(ui, done_[i], done_.size() > 1 ? fmt::format("sweep {}: ", of_.second[i]) : "");
    if (lines_.empty()) {
      ui.empty("They have no trial in common", "Compare runs of one preset.");
      return;
    }
    if (ui.toggle("changed only", changed_only_,
                  "Lists only what is FASTER, SLOWER or ended otherwise than before")) {
      changed_only_ = !changed_only_;
      filter();
    }
    ui.next_label(fmt::format("{} of {}", shown_.size(), lines_.size()),
                  "How many trials are listed, of all that any of the sweeps has.");
    if (done_.size() == 1 && !done_[0].trials.empty()) plot(explorer, ui);
    if (chosen_) history(explorer, ui);
    table(explorer, ui);
  }

  void store_replaced() override { *this = ComparePanel(); }

 private:
  /// Proposes the sweep that the command line asks for, else the newest, and the previous one of
  /// the same name, rather than any previous one; the oldest one with that after it. Replaces
  /// sweeps that were deleted.
  void propose(const std::vector<SweepRow>& sweeps, int64_t asked) {
    const auto there = [&](int64_t id) {
      return std::any_of(sweeps.begin(), sweeps.end(),
                         [id](const SweepRow& row) { return row.id == id; });
    };
    const bool fresh = std::exchange(asked_, asked) != asked;
    if (!fresh && there(before_) && std::all_of(after_.begin(), after_.end(), there)) return;
    size_t after = 0;
    for (size_t i = 0; i + 1 < sweeps.size(); ++i)
      if (sweeps[i].id == asked) after = i;
    if (sweeps.back().id == asked) after = sweeps.size() - 2;  // the oldest: the one before
    after_ = {sweeps[after].id};
    before_ = sweeps[after + 1].id;
    for (size_t i = sweeps.size(); i-- > after + 1;)
      if (sweeps[i].name == sweeps[after].name) before_ = sweeps[i].id;
  }

  void choose(Ui& ui, const std::vector<std::string>& names, const std::vector<SweepRow>& sweeps) {
    const float width = std::min(ui.px(250), ImGui::GetContentRegionAvail().x * 0.4f);
    const auto pick = [&](const std::string& name, const char* tip, int64_t* id) {
      int at = -1;
      for (size_t i = 0; i < sweeps.size(); ++i)
        if (sweeps[i].id == *id) at = static_cast<int>(i);
      if (ui.choice(name, &at, names, width, tip)) *id = sweeps[static_cast<size_t>(at)].id;
    };
    pick("before", "The sweep that the others are compared with.", &before_);
    ImGui::SameLine();
    ui.label("→");
    for (size_t i = 0; i < after_.size(); ++i) {
      ui.beside(width);
      pick(i == 0 ? "after" : fmt::format("after {}", i + 1), "A sweep that is compared with it.",
           &after_[i]);
    }
    if (ui.next_button("Another", after_.size() < std::min(kMost, sweeps.size() - 1),
                       "Compares one more sweep with the first")) {
      const auto unused = [&](const SweepRow& row) {
        return row.id != before_ && std::find(after_.begin(), after_.end(), row.id) == after_.end();
      };
      const auto next = std::find_if(sweeps.begin(), sweeps.end(), unused);
      after_.push_back(next == sweeps.end() ? sweeps.front().id : next->id);
    }
    if (after_.size() > 1 && ui.next_button("Fewer", true, "Takes the last one away"))
      after_.pop_back();
  }

  void start(Explorer& explorer) {
    const std::pair wanted{before_, after_};
    const uint64_t read_agains = explorer.library.read_agains();
    // While the window's sweep is timed nothing else may run, except what the user asks for.
    if (wanted == of_ && read_agains == read_agains_ && explorer.run.active()) return;
    read_agains_ = read_agains;
    std::string state = fmt::format("{}", read_agains);
    for (const SweepRow& row : explorer.library.sweeps())
      if (row.id == before_ || std::find(after_.begin(), after_.end(), row.id) != after_.end())
        state += fmt::format(" {} {} {}", row.id, row.done, row.state);
    const bool others = wanted != of_;
    if (!others && state == state_) return;
    of_ = wanted;
    state_ = state;
    if (others) done_.clear();
    explorer.jobs.start("compare", [this, db = explorer.library.db(), wanted]() -> Jobs::Result {
      Store store = Store::read(db);
      const SweepReport before = store.load(wanted.first);
      std::vector<Comparison> all;
      for (const int64_t after : wanted.second)
        all.push_back(compare_sweeps(before, store.load(after)));
      std::vector<ComparedLine> lines = compared_lines(all);
      return [this, all = std::move(all), lines = std::move(lines)]() mutable {
        done_ = std::move(all);
        lines_ = std::move(lines);
        filter();
      };
    });
  }

  void filter() {
    shown_.clear();
    spots_.clear();
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (changed_only_ && !lines_[i].changed()) continue;
      shown_.push_back(i);
    }
    if (done_.size() != 1) return;
    for (const ComparedLine& line : lines_)
      if (const auto& t = line.changes[0])
        spots_.push_back(
            {line.key.text(), about(*t), t->before_ns, t->after_ns, t->verdict, false});
  }

  static std::string about(const ComparedTrial& t) {
    const std::string why = unclear_text(t);
    return fmt::format("{:.2f}× [{:.2f}, {:.2f}] {}; {} before, {} after{}", t.change.value,
                       t.change.low, t.change.high, t.verdict,
                       value_text(Measure::time, t.before_ns),
                       value_text(Measure::time, t.after_ns), why.empty() ? "" : "; " + why);
  }

  // ---- one trial ----

  /// Follows the window's selection.
  void follow(Explorer& explorer) {
    const PointDetail* detail = explorer.library.detail();
    if (explorer.library.point() == point_ || !detail || detail->key.baseline) return;
    if (detail->key != explorer.library.point()) return;  // that one is still being read
    point_ = explorer.library.point();
    const Case& c = detail->of;
    look_at(explorer,
            {c.target, c.shape, c.dtype, c.device, c.mode, c.phase, detail->key.strategy, c.n});
  }

  void look_at(Explorer& explorer, const TrialKey& key) {
    if (chosen_ == key) return;
    chosen_ = key;
    moments_.clear();
    read_history(explorer);
  }

  void read_history(Explorer& explorer) {
    history_at_ = explorer.library.changes();
    explorer.jobs.start("history",
                        [this, db = explorer.library.db(), key = *chosen_]() -> Jobs::Result {
                          return [this, key, moments = trial_history(db, key)]() mutable {
                            if (chosen_ == key) moments_ = std::move(moments);
                          };
                        });
  }

  /// Selects the trial in the whole window, if the open sweep has it.
  void select(Explorer& explorer, const TrialKey& key) {
    look_at(explorer, key);
    const TrialTable* table = explorer.library.table();
    if (!table) return;
    for (uint32_t i = 0; i < table->rows.size(); ++i) {
      const TrialRow& r = table->rows[i];
      if (r.baseline || r.n != key.n || table->word(r.target) != key.target ||
          table->word(r.strategy) != key.strategy || table->word(r.shape) != key.shape ||
          table->word(r.dtype) != key.dtype || table->word(r.device) != key.device ||
          table->word(r.mode) != key.mode || table->word(r.phase) != key.phase ||
          (!key.machine.empty() && table->word(r.machine) != key.machine))
        continue;
      explorer.library.select_row(i);
      point_ = explorer.library.point();
      return;
    }
  }

  /// The trial's results in all sweeps, newest first.
  void history(Explorer& explorer, Ui& ui) {
    if (history_at_ != explorer.library.changes() && !explorer.run.active()) read_history(explorer);
    const float width = ImGui::GetContentRegionAvail().x;
    ui.fitted("through all sweeps: " + chosen_->text(), width);
    if (moments_.empty()) {
      ui.muted(explorer.jobs.busy("history") ? "reading the store" : "No sweep has it.");
      return;
    }
    const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
    const float rows = static_cast<float>(std::min<size_t>(moments_.size(), 5)) + 1;
    if (!ui.begin_table(
            "history",
            {{"sweep", 100, "The number and the name of the sweep"},
             {"commit", 84, "The commit of the program that ran it"},
             {"started", 0, "When the sweep began"},
             {"over best", 66, "Speedup over the best way of running the models separately"},
             {"95 %", 96, "The 95 % interval of the speedup"},
             {"time", 70, "Median time of a call for all models"}},
            {0, rows * line + ui.px(4)}, ImGuiTableFlags_RowBg))
      return;
    for (size_t i = moments_.size(); i-- > 0;) moment(explorer, ui, moments_[i]);
    ImGui::EndTable();
  }

  static void moment(Explorer& explorer, Ui& ui, const PastTrial& m) {
    ImGui::TableNextRow();
    ImGui::TableSetColumnIndex(0);
    if (ui.row(fmt::format("{} · {}##history", m.sweep, m.name),
               m.sweep == explorer.library.sweep()))
      explorer.library.open(m.sweep);
    ui.tip("Opens this sweep in all panels.\n\nMeasured on " + m.machine);
    ui.cell(1, m.git.substr(0, 10));
    ui.cell(2, m.started, true);
    if (m.vs_best > 0) {
      ImGui::TableSetColumnIndex(3);
      ui.tinted(short_number(m.vs_best) + "×", m.verdict == "FASTER" ? ui.theme().good
                                               : m.verdict == kWrong ? ui.theme().warn
                                                                     : ui.theme().plot.muted);
      ui.tip(fmt::format("{} over {}{}", m.verdict, m.best_baseline,
                         m.disturbed ? ", disturbed by other programs" : ""));
      ui.cell(4, fmt::format("{} to {}", short_number(m.low), short_number(m.high)), true);
    } else {
      ui.cell(3, m.status, true);
    }
    ui.cell(5, m.median_ns > 0 ? value_text(Measure::time, m.median_ns) : "–");
  }

  // ---- all trials ----

  static uint32_t tone(const Ui& ui, const ComparedTrial& t) {
    return t.verdict == kWrong     ? ui.theme().bad
           : t.verdict == "FASTER" ? ui.theme().good
                                   : ui.theme().plot.muted;
  }

  /// The summary, in the words of `workbench compare`.
  static void summary(Ui& ui, const Comparison& c, const std::string& of) {
    const float room = ImGui::GetContentRegionAvail().x;
    ui.fitted(of + verdicts_text(c), room);
    for (const std::string& line : c.hardware)
      ui.tinted(ui.fit("other hardware, no time can be compared: " + line, room), ui.theme().warn);
    for (const Difference& d : c.environment)
      ui.fitted(
          fmt::format("environments differ in {}: {}, was {}", d.what,
                      d.after.empty() ? "none" : d.after, d.before.empty() ? "none" : d.before),
          room, true);
    for (const CrossoverChange& change : c.crossovers)
      ui.fitted(crossover_text(change), room, true);
  }

  void plot(Explorer& explorer, Ui& ui) {
    for (ComparedSpot& spot : spots_) spot.selected = chosen_ && spot.name == chosen_->text();
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float height = std::clamp(room.y * 0.5f, ui.px(170), ui.px(320));
    if (const auto picked = draw_compare_plot(ui, spots_, room.x, height))
      for (const ComparedLine& line : lines_)
        if (line.key.text() == spots_[*picked].name) return select(explorer, line.key);
  }

  /// With one other sweep the table shows times; several get a column each.
  void table(Explorer& explorer, Ui& ui) {
    if (shown_.empty()) {
      ui.empty("Nothing changed",
               "Every trial is as before, or it is UNCLEAR whether it is: switch "
               "changed only off to see all.");
      return;
    }
    const bool one = done_.size() == 1;
    std::vector<Ui::Column> heads{{"trial", 230, "Target, strategy, N and all that is not usual"}};
    if (one)
      heads.insert(heads.end(), {{"verdict", 110, kVerdictTip},
                                 {"speed", 60, kChangeTip},
                                 {"interval", 108, kIntervalTip},
                                 {"before", 66, "Median time of a call before"},
                                 {"after", 66, "Median time of a call after"},
                                 {"why", 300, "Why it cannot be said whether it changed"}});
    else
      for (const int64_t after : of_.second) heads.push_back({fmt::format("sweep {}", after), 128});
    if (!ui.begin_table(one ? "compared" : "compared with several", heads, ui.room(130),
                        ImGuiTableFlags_ScrollX | ImGuiTableFlags_RowBg))
      return;
    Ui::table_lines(shown_.size(), [&](size_t i) {
      const ComparedLine& line = lines_[shown_[i]];
      ImGui::TableNextRow();
      ImGui::TableSetColumnIndex(0);
      const std::string key = line.key.text();
      if (ui.whole_line(fmt::format("change {}", i + 1), chosen_ == line.key,
                        key + "\nA click shows it through all sweeps, and selects it."))
        select(explorer, line.key);
      ui.fitted(key);
      if (one)
        times(ui, line);
      else
        changes(ui, line);
    });
    ImGui::EndTable();
  }

  static void times(Ui& ui, const ComparedLine& line) {
    if (const auto& status = line.statuses[0]) ui.cell(1, status_change_text(*status));
    const auto& t = line.changes[0];
    if (!t) return;
    ImGui::TableSetColumnIndex(1);
    ui.tinted(t->verdict, tone(ui, *t));
    ui.cell(2, fmt::format("{:.2f}×", t->change.value));
    ui.cell(3, fmt::format("{:.2f} to {:.2f}", t->change.low, t->change.high), true);
    ui.cell(4, value_text(Measure::time, t->before_ns));
    ui.cell(5, value_text(Measure::time, t->after_ns));
    ui.cell(6, unclear_text(*t), true);
  }

  static void changes(Ui& ui, const ComparedLine& line) {
    for (size_t i = 0; i < line.changes.size(); ++i) {
      ImGui::TableSetColumnIndex(static_cast<int>(i) + 1);
      if (const auto& status = line.statuses[i]) {
        ui.fitted(status_change_text(*status));
      } else if (const auto& t = line.changes[i]) {
        ui.tinted(fmt::format("{:.2f}× {}", t->change.value, t->verdict), tone(ui, *t));
        ui.tip(about(*t));
      } else {
        ui.muted("not there");
      }
    }
  }

  int64_t before_ = 0, asked_ = 0;
  std::vector<int64_t> after_;
  std::pair<int64_t, std::vector<int64_t>> of_;  // the ids compared last
  std::string state_;                            // how far those sweeps were
  uint64_t read_agains_ = 0;                     // `Library::read_agains` then
  std::vector<Comparison> done_;                 // comparisons of `before_` with each of `after_`
  std::vector<ComparedLine> lines_;
  std::vector<size_t> shown_;  // indices in `lines_`
  std::vector<ComparedSpot> spots_;
  bool changed_only_ = true;
  std::optional<PointKey> point_;  // the window's selection when last followed
  std::optional<TrialKey> chosen_;
  std::vector<PastTrial> moments_;  // the history of `chosen_`
  uint64_t history_at_ = 0;         // `Library::changes` when it was read
};

const bool registered =
    add_panel({"compare", "Compare", "What changed from one sweep to others, worst first.",
               Place::middle, 3, [] { return std::make_unique<ComparePanel>(); }});

}  // namespace
}  // namespace wide::compare_panel
