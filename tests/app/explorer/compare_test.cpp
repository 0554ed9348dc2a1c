// The panel that compares sweeps: what changed, why it is unclear, one trial through all sweeps.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <cmath>

#include "app/explorer/models/trials/compare.h"
#include "app/results/compare_text.h"
#include "data/store/sweeps/trial_history.h"
#include "tests/app/explorer/stored.h"

namespace wide::compare_test {
namespace {

void set_samples(Timing* t, double ns) {
  for (size_t i = 0; i < t->samples_ns.size(); ++i)
    t->samples_ns[i] = ns * (1 + 1e-4 * double(i * 7 % 11));
  summarise(*t);
}

StoredCases times_plan() {
  StoredCases plan = stored_plan("times", {});
  for (const int64_t n : {2, 4, 8, 16})
    plan.cases.push_back({"linear", "B16 D256", "f32", "cpu", "default", "forward", n, {"s1"}});
  return plan;
}

/// Strategies whose times are known: s1 takes `first` times as long as the baselines, s2 half.
std::vector<Case> times_cases(double first, bool disturbed, bool wrong = false) {
  std::vector<Case> results;
  for (const int64_t n : {2, 4, 8, 16}) {
    Case c = shown_case("linear", n);
    c.disturbed = disturbed;
    c.trials.resize(2);
    const double base = 1e5 * double(n);
    for (Timing& b : c.baselines) set_samples(&b, base);
    set_samples(&c.trials[0].timing, base * first);
    set_samples(&c.trials[1].timing, base * 0.5);
    if (wrong && n == 16) c.trials[1].status = Status::incorrect;
    results.push_back(c);
  }
  return results;
}

int64_t store_times(const std::string& path, double first, bool disturbed, bool wrong = false) {
  return store_cases(path, times_plan(), times_cases(first, disturbed, wrong));
}

class ExplorerCompare : public ::testing::Test {
 protected:
  void open() {
    Settings settings;
    settings.view = "compare";
    screen_ = screen_on(file_.path(), settings);
    driver_ = std::make_unique<Driver>(*screen_);
    driver_->settle();
  }
  const ScreenItem* find(const std::string& label) { return screen_->ui().items.find(label); }
  StoreFile file_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(ExplorerCompare, OnlyWhatChangedIsListedInTheWordsOfTheCommand) {
  store_times(file_.path(), 0.5, false);
  store_times(file_.path(), 1.5, false, true);
  open();
  Store store = Store::read(file_.path());
  const Comparison comparison = compare_sweeps(store.load(1), store.load(2));
  const std::string command = comparison_text(comparison);
  const std::vector<ComparedLine> lines = compared_lines({comparison});
  const size_t changed = static_cast<size_t>(
      std::count_if(lines.begin(), lines.end(), [](const ComparedLine& l) { return l.changed(); }));
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(changed, 5u);  // four are slower, one became incorrect
  EXPECT_TRUE(driver_->sees("5 of 8"));
  EXPECT_TRUE(driver_->sees(verdicts_text(comparison)));
  EXPECT_NE(command.find(verdicts_text(comparison)), std::string::npos);
  EXPECT_TRUE(driver_->sees("ok to incorrect"));
  EXPECT_NE(command.find("ok to incorrect"), std::string::npos);
  EXPECT_NE(find("change 5"), nullptr);
  EXPECT_EQ(find("change 6"), nullptr);
  driver_->click("changed only");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("8 of 8"));
}

TEST_F(ExplorerCompare, WhyATrialIsUnclearIsSaid) {
  store_times(file_.path(), 0.5, false);
  store_times(file_.path(), 0.5, true);
  open();
  EXPECT_TRUE(driver_->sees("Nothing changed"));
  driver_->click("changed only");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("other programs disturbed it"));
  ComparedTrial wide_interval;
  wide_interval.verdict = "UNCLEAR";
  wide_interval.change = {1.05, 0.8, 1.4};
  EXPECT_NE(unclear_text(wide_interval).find("from 0.80 to 1.40"), std::string::npos);
  wide_interval.verdict = "SAME";
  EXPECT_EQ(unclear_text(wide_interval), "");
}

TEST_F(ExplorerCompare, PointsLieWhereTheirTimesSay) {
  store_times(file_.path(), 0.5, false);
  store_times(file_.path(), 1.5, false);
  open();
  const auto middle = [&](const std::string& key) -> Point {
    const ScreenItem* item = find("compared " + key);
    EXPECT_NE(item, nullptr) << key;
    return item ? Point{item->box.x + item->box.width / 2, item->box.y + item->box.height / 2}
                : Point{};
  };
  const auto key = [](const char* strategy, int n) {
    return fmt::format("linear/{} n={} B16 D256", strategy, n);
  };
  // s2 took as long as before: its points are the line of equal times. Two of them say where it
  // lies; a factor of 8 along it is a factor of 8 on both axes.
  const Point a = middle(key("s2", 2)), b = middle(key("s2", 16));
  EXPECT_GT(b.x, a.x);
  EXPECT_LT(b.y, a.y);
  const ScreenItem* area = find("before and after");
  ASSERT_NE(area, nullptr);
  // Both axes have one range, so that the drawn line, from corner to corner, is that of equal
  // times.
  EXPECT_NEAR((b.x - a.x) / (area->box.width - 70), (a.y - b.y) / (area->box.height - 56), 0.01);
  const double right = (b.x - a.x) / std::log(8), up = (a.y - b.y) / std::log(8);
  for (const int n : {2, 4, 8, 16}) {
    const Point same = middle(key("s2", n)), slower = middle(key("s1", n));
    EXPECT_NEAR(same.x, a.x + right * std::log(n / 2.0), 1);
    EXPECT_NEAR(same.y, a.y - up * std::log(n / 2.0), 1);
    EXPECT_NEAR(slower.x, same.x, 1) << "before they were alike";
    EXPECT_NEAR(slower.y, same.y - up * std::log(3), 1) << "three times as long, above the line";
  }
}

TEST_F(ExplorerCompare, TheSweepThatIsAskedForIsComparedWithTheOneBeforeIt) {
  for (const double first : {0.5, 0.7, 1.5}) store_times(file_.path(), first, false);
  open();
  ASSERT_NE(find("after"), nullptr);
  EXPECT_EQ(find("after")->value.rfind("3 · times", 0), 0u) << find("after")->value;
  screen_->explorer().library.open_asked(2);  // as --open does
  driver_->settle();
  EXPECT_EQ(find("before")->value.rfind("1 · times", 0), 0u) << find("before")->value;
  EXPECT_EQ(find("after")->value.rfind("2 · times", 0), 0u) << find("after")->value;
  screen_->explorer().library.open(3);  // what is chosen stays
  driver_->settle();
  EXPECT_EQ(find("after")->value.rfind("2 · times", 0), 0u) << find("after")->value;
  screen_->explorer().library.open_asked(1);  // the oldest, which has none before it
  driver_->settle();
  EXPECT_EQ(find("before")->value.rfind("1 · times", 0), 0u) << find("before")->value;
  EXPECT_EQ(find("after")->value.rfind("2 · times", 0), 0u) << find("after")->value;
}

TEST_F(ExplorerCompare, ATrialThroughAllSweepsIsThatOfTheStore) {
  for (const double first : {0.5, 0.7, 1.5}) store_times(file_.path(), first, false);
  const TrialKey key{"linear", "B16 D256", "f32", "cpu", "default", "forward", "s1", 8};
  const std::vector<PastTrial> moments = trial_history(file_.path(), key);
  SQLite::Database db(file_.path(), SQLite::OPEN_READONLY);
  SQLite::Statement query(
      db,
      "SELECT sweep, median_ns, git, vs_best, status FROM trial JOIN \"case\" ON trial.\"case\" = "
      "\"case\".id JOIN timing ON timing.trial = trial.id JOIN sweep ON sweep.id = sweep JOIN "
      "environment ON environment.id = environment WHERE strategy = 's1' AND n = 8 ORDER BY sweep");
  size_t i = 0;
  for (; query.executeStep(); ++i) {
    ASSERT_LT(i, moments.size());
    EXPECT_EQ(moments[i].sweep, query.getColumn(0).getInt64());
    EXPECT_EQ(moments[i].median_ns, query.getColumn(1).getDouble());
    EXPECT_EQ(moments[i].git, query.getColumn(2).getString());
    EXPECT_EQ(moments[i].vs_best, query.getColumn(3).getDouble());
    EXPECT_EQ(moments[i].status, query.getColumn(4).getString());
  }
  EXPECT_EQ(moments.size(), 3u);
  EXPECT_EQ(i, 3u);
  TrialKey other = key;
  other.phase = "backward";
  EXPECT_TRUE(trial_history(file_.path(), other).empty());
  // A click on a point selects it in the whole window and shows it through all sweeps.
  open();
  driver_->click("compared linear/s1 n=8 B16 D256");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("through all sweeps: linear/s1 n=8 B16 D256"));
  EXPECT_TRUE(driver_->sees("linear / s1"));
  for (const char* sweep : {"1 · times", "2 · times", "3 · times"}) EXPECT_NE(find(sweep), nullptr);
  // A frame that is drawn before the facts of the next selection are there waits for them.
  Library& library = screen_->explorer().library;
  for (uint32_t at = 0; at < library.table()->rows.size(); ++at) {
    const TrialRow& row = library.table()->rows[at];
    if (row.n != 4 || row.baseline || library.table()->word(row.strategy) != "s2") continue;
    const OccupiedJobs occupied(screen_->explorer().jobs);
    library.select_row(at);
    screen_->frame();
  }
  driver_->settle();
  EXPECT_TRUE(driver_->sees("through all sweeps: linear/s2 n=4 B16 D256"));
  driver_->click("1 · times");
  driver_->settle();
  EXPECT_EQ(library.sweep(), 1);
}

TEST_F(ExplorerCompare, ASweepThatGrowsIsComparedAgain) {
  store_times(file_.path(), 0.5, false);
  Store store = Store::create(file_.path());
  const int64_t sweep = store.begin(times_plan());
  const std::vector<Case> cases = times_cases(1.5, false);
  store.add_case(sweep, 0, cases[0]);
  open();
  const auto in_words = [&] { return verdicts_text(compare_sweeps(store.load(1), store.load(2))); };
  const std::string first = in_words();
  EXPECT_TRUE(driver_->sees(first)) << first;
  driver_->click("compared linear/s1 n=2 B16 D256");
  driver_->settle();
  EXPECT_EQ(find("compared linear/s1 n=8 B16 D256"), nullptr);
  for (size_t i = 1; i < cases.size(); ++i)
    store.add_case(sweep, static_cast<int64_t>(i), cases[i]);
  screen_->explorer().library.refresh(true);
  driver_->settle();
  driver_->settle();
  const std::string second = in_words();
  EXPECT_NE(second, first);
  EXPECT_TRUE(driver_->sees(second)) << second;
  EXPECT_NE(find("compared linear/s1 n=8 B16 D256"), nullptr);
  // So does the history of the trial that is chosen.
  EXPECT_NE(find("2 · times"), nullptr);
  EXPECT_EQ(find("3 · times"), nullptr);
  store.add_case(store.begin(times_plan()), 0, cases[0]);
  screen_->explorer().library.refresh(true);
  driver_->settle();
  driver_->settle();
  EXPECT_NE(find("3 · times"), nullptr);
  // What has as many cases as before is read again when the user asks for it.
  {
    SQLite::Database db(file_.path(), SQLite::OPEN_READWRITE);
    db.exec(
        "UPDATE trial SET status = 'incorrect' WHERE strategy = 's2' AND \"case\" IN "
        "(SELECT id FROM \"case\" WHERE sweep = 2 AND n = 4)");
  }
  EXPECT_FALSE(driver_->sees("ok to incorrect"));
  driver_->press("F5");
  driver_->settle();
  driver_->settle();
  EXPECT_TRUE(driver_->sees("ok to incorrect"));
}

}  // namespace
}  // namespace wide::compare_test
