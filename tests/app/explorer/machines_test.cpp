// A sweep of several machines in the explorer: their facts, their times and their plots apart.
#include <gtest/gtest.h>

#include <set>

#include "data/store/sweeps/trial_history.h"
#include "tests/app/explorer/stored.h"

namespace wide::machines_test {
namespace {

/// Four Ns of one target, of which machine "large" measured every other one.
class ExplorerMachines : public ::testing::Test {
 protected:
  void SetUp() override {
    StoredCases plan = stored_plan("machines", {});
    small_ = large_ = plan.environment;
    small_.host = "small", small_.cpu = "one processor", small_.cores = 2;
    large_.host = "large", large_.cpu = "another processor", large_.cores = 96;
    small_.os = "system of small", large_.os = "system of large";
    plan.environment = small_;
    for (const int64_t n : kNs)
      plan.cases.push_back({"linear", "B16 D256", "f32", "cpu", "default", "forward", n, {"s1"}});
    Store store = Store::create(file_.path());
    sweep_ = store.begin(plan);
    store.add_machine(sweep_, large_);
    for (size_t i = 0; i < kNs.size(); ++i) {
      Case c = shown_case("linear", kNs[i]);
      c.machine = machine_name(i % 2 == 0 ? small_ : large_);
      store.add_case(sweep_, static_cast<int64_t>(i), c);
    }
    store.finish(sweep_, "complete", {});
    table_ = std::make_unique<TrialTable>(store.trials(sweep_));
  }
  void open(const std::string& view) {
    Settings settings;
    settings.view = view;
    screen_ = screen_on(file_.path(), settings);
    driver_ = std::make_unique<Driver>(*screen_);
    driver_->settle();
  }

  static inline const std::vector<int64_t> kNs{2, 4, 8, 16};
  Environment small_, large_;
  StoreFile file_;
  int64_t sweep_ = 0;
  std::unique_ptr<TrialTable> table_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(ExplorerMachines, NoPlotHasTwoKindsOfHardware) {
  const std::vector<Group> groups = groups_of(*table_);
  ASSERT_EQ(groups.size(), 2u);
  for (size_t g = 0; g < 2; ++g) {
    EXPECT_EQ(groups[g].machine, hardware_of(machine_name(g == 0 ? small_ : large_)));
    EXPECT_TRUE(groups[g].text().ends_with(" · " + groups[g].machine)) << groups[g].text();
    const std::vector<Figure> figures = figures_of(cases_of(*table_, groups[g]), {});
    ASSERT_EQ(figures.size(), 1u);
    for (const Curve& curve : figures[0].curves)
      for (const CurvePoint& point : curve.points)
        EXPECT_TRUE(point.n == double(kNs[g]) || point.n == double(kNs[g + 2])) << point.about;
  }
}

TEST_F(ExplorerMachines, TrialsAreHeldAndFilteredByMachine) {
  const std::vector<TableAxis> axes = axes_of(*table_);
  const TableAxis* axis = find_axis(axes, "machine");
  ASSERT_NE(axis, nullptr);
  EXPECT_EQ(axis->values, (std::vector<std::string>{machine_name(small_), machine_name(large_)}));
  OverviewOptions options;
  options.held = {{"machine", machine_name(large_)}};
  const Overview overview = overview_of(*table_, axes, options);
  ASSERT_EQ(overview.lines.size(), 1u);
  EXPECT_EQ(overview.lines[0].cells.size(), 2u);
  for (const uint32_t row : arrange(*table_, Filter("machine:large"), {}))
    EXPECT_EQ(table_->word(table_->rows[row].machine), machine_name(large_));
  EXPECT_EQ(arrange(*table_, Filter("machine:large"), {}).size(),
            arrange(*table_, Filter("machine:small"), {}).size());
  const std::string csv = csv_text(*table_, arrange(*table_, Filter("s1 n=4"), {}), {});
  EXPECT_NE(csv.find("\"" + machine_name(large_) + "\""), std::string::npos) << csv;
}

TEST_F(ExplorerMachines, TheirFactsAreShownApart) {
  open("environment");
  EXPECT_TRUE(driver_->sees("2 machines"));
  EXPECT_TRUE(driver_->sees("system of small"));
  EXPECT_FALSE(driver_->sees("system of large"));
  driver_->click("machine");
  driver_->click(machine_name(large_));
  driver_->settle();
  EXPECT_TRUE(driver_->sees("system of large"));
  EXPECT_FALSE(driver_->sees("system of small"));
}

TEST_F(ExplorerMachines, ATrialNamesTheMachineThatItWasMeasuredOn) {
  open("plot");
  Library& library = screen_->explorer().library;
  for (uint32_t row = 0; row < table_->rows.size(); ++row)
    if (table_->rows[row].n == 16 && table_->word(table_->rows[row].strategy) == "s1") {
      library.select_row(row);
      break;
    }
  driver_->settle();
  EXPECT_EQ(library.detail()->of.machine, machine_name(large_));
  EXPECT_TRUE(driver_->sees("large"));
  EXPECT_TRUE(driver_->sees("another processor, "));
  for (const PastTrial& m : trial_history(
           file_.path(), {"linear", "B16 D256", "f32", "cpu", "default", "forward", "s1", 16}))
    EXPECT_EQ(m.machine, machine_name(large_));
}

TEST_F(ExplorerMachines, TimesOfOtherHardwareAreUnclear) {
  StoredCases plan = stored_plan("machines", {});
  plan.environment = small_;
  for (const int64_t n : kNs)
    plan.cases.push_back({"linear", "B16 D256", "f32", "cpu", "default", "forward", n, {"s1"}});
  Store store = Store::create(file_.path());
  const int64_t sweep = store.begin(plan);
  for (size_t i = 0; i < kNs.size(); ++i) {
    Case c = shown_case("linear", kNs[i]);
    c.machine = machine_name(small_);
    store.add_case(sweep, static_cast<int64_t>(i), c);
  }
  store.finish(sweep, "complete", {});
  for (const ComparedTrial& t : compare_sweeps(store.load(sweep_), store.load(sweep)).trials) {
    const bool other = t.key.n == kNs[1] || t.key.n == kNs[3];
    EXPECT_EQ(t.why_unclear.starts_with("other hardware: CPU: another processor before"), other);
    EXPECT_TRUE(!other || t.verdict == "UNCLEAR") << t.key.text();
  }
  open("compare");
  driver_->click("changed only");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("other hardware: CPU: another processor before"));
}

}  // namespace
}  // namespace wide::machines_test
