// The overview: sorted by any column, filtered as the table of trials, one selection.
#include <gtest/gtest.h>

#include "tests/app/explorer/stored.h"

namespace wide::overview_test {
namespace {

using By = OverviewSort::By;

class ExplorerOverview : public ::testing::Test {
 protected:
  void open(const std::vector<std::string>& targets = {"linear", "conv2d"}) {
    store_sweep(file_.path(), targets, {2, 8});
    screen_ = screen_on(file_.path());
    driver_ = std::make_unique<Driver>(*screen_);
    driver_->settle();
  }
  Library& library() { return screen_->explorer().library; }
  double y_of(const std::string& label) {
    const ScreenItem* item = screen_->ui().items.find(label);
    return item ? item->box.y : -1;
  }
  const ScreenItem* find(const std::string& label) { return screen_->ui().items.find(label); }
  StoreFile file_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Driver> driver_;
};

Overview three_lines() {
  Overview overview;
  const auto add = [&](const char* name, const char* fastest, std::optional<int64_t> from,
                       int wrong, std::optional<double> value) {
    OverviewLine line;
    line.name = name;
    line.fastest = fastest;
    line.crossover = from;
    line.incorrect = wrong;
    line.trials = 4;
    if (value) line.cells[1].value = *value;
    overview.lines.push_back(line);
  };
  add("D=64", "b", 8, 0, 2);
  add("D=512", "", std::nullopt, 2, std::nullopt);
  add("D=128", "a", 2, 1, 3);
  return overview;
}

TEST(ExplorerOverviewSort, EveryColumnSortsAndWhatIsMissingComesLast) {
  const Overview of = three_lines();
  using Order = std::vector<size_t>;
  EXPECT_EQ(sorted_lines(of, {}), (Order{0, 1, 2}));
  EXPECT_EQ(sorted_lines(of, {By::name}), (Order{0, 2, 1}));  // 64, 128, 512: by their numbers
  EXPECT_EQ(sorted_lines(of, {By::name, 0, true}), (Order{1, 2, 0}));
  EXPECT_EQ(sorted_lines(of, {By::fastest}), (Order{2, 0, 1}));
  EXPECT_EQ(sorted_lines(of, {By::fastest, 0, true}), (Order{0, 2, 1}));
  EXPECT_EQ(sorted_lines(of, {By::pays_from}), (Order{2, 0, 1}));
  EXPECT_EQ(sorted_lines(of, {By::right, 0, true}), (Order{1, 2, 0}));
  EXPECT_EQ(sorted_lines(of, {By::column, 1}), (Order{0, 2, 1}));
  EXPECT_EQ(sorted_lines(of, {By::column, 1, true}), (Order{2, 0, 1}));
  EXPECT_EQ(sorted_lines(of, {By::column, 7}), (Order{0, 1, 2}));
}

TEST_F(ExplorerOverview, AClickOnAHeadSorts) {
  open();
  EXPECT_LT(y_of("linear N=8"), y_of("conv2d N=8"));
  driver_->click("target");  // the head of the overview lies above that of the table of trials
  driver_->settle();
  EXPECT_LT(y_of("conv2d N=8"), y_of("linear N=8"));
}

TEST_F(ExplorerOverview, TheFilterOfTheTableIsThatOfTheOverview) {
  open();
  EXPECT_TRUE(driver_->sees("3.25×"));  // s3 at N=2
  driver_->click("filter");
  driver_->type("target:linear -s3");
  driver_->settle();
  EXPECT_EQ(find("conv2d N=2"), nullptr);
  EXPECT_EQ(library().overview().lines.size(), 1u);
  EXPECT_DOUBLE_EQ(library().overview().lines[0].cells.at(0).value, 2.25);  // the best left
  EXPECT_EQ(library().overview().lines[0].incorrect, 0);
  driver_->click("Clear filter");
  driver_->settle();
  EXPECT_NE(find("conv2d N=2"), nullptr);
  EXPECT_EQ(library().trials().shown().size(), 20u);
  driver_->click("filter");
  driver_->type("n>100");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("No trial fits the filter"));
}

TEST_F(ExplorerOverview, ThereIsOneSelection) {
  open();
  driver_->click("conv2d N=8");
  driver_->settle();
  const auto selected = [&]() -> std::string {
    const TrialTable& table = *library().table();
    const auto row = library().selected_row();
    if (!row) return "none";
    const TrialRow& r = table.rows[*row];
    return fmt::format("{}/{}@{}", table.word(r.target), table.word(r.strategy), r.n);
  };
  EXPECT_EQ(selected(), "conv2d/s2@8");
  EXPECT_TRUE(driver_->sees("conv2d / s2"));  // the details
  const auto rows_on = [&] {
    std::vector<std::string> on;
    for (const ScreenItem& i : screen_->ui().items.last())
      if (i.on && i.label.rfind("trial ", 0) == 0) on.push_back(i.label);
    return on;
  };
  EXPECT_EQ(rows_on(), std::vector<std::string>{"trial 17"});  // five trials a case, in its order
  screen_->explorer().show("matrix");
  driver_->settle();
  EXPECT_TRUE(find("conv2d N=8")->on);
  EXPECT_FALSE(find("conv2d N=2")->on);
  // From the table: the plot and the overview follow.
  driver_->click("trial 1");
  driver_->settle();
  EXPECT_EQ(selected(), "linear/s1@2");
  EXPECT_TRUE(find("linear N=2")->on);
  EXPECT_EQ(library().groups()[library().group()].target, "linear");
  // From the plot's list of targets: its best trial is selected, and comes into sight.
  screen_->explorer().show("plot");
  driver_->settle();
  driver_->click("target and shape");
  driver_->click("conv2d · B16 D256 · f32 · cpu · forward");
  driver_->settle();
  EXPECT_EQ(selected(), "conv2d/s2@8");
  driver_->click("filter");
  driver_->type("linear");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("the filter hides the selected trial"));
}

TEST_F(ExplorerOverview, ASelectionElsewhereComesIntoSightInTheTable) {
  open({"linear", "conv2d", "bmm", "gru", "lstm", "rnn"});
  EXPECT_EQ(find("trial 57"), nullptr);  // far below
  driver_->click("rnn N=8");
  driver_->settle();
  ASSERT_NE(find("trial 57"), nullptr);
  EXPECT_TRUE(find("trial 57")->on);
}

TEST_F(ExplorerOverview, WhatIsEmptyAndWhatPaysIsExplained) {
  open();
  const auto says = [&](const std::string& label, const std::string& tip) {
    const auto& items = screen_->ui().items.last();
    return std::any_of(items.begin(), items.end(), [&](const ScreenItem& i) {
      return i.label == label && i.tip.find(tip) != std::string::npos;
    });
  };
  EXPECT_TRUE(says("pays from", "95 % interval"));
  EXPECT_TRUE(says("N=2", "From N=2 on s2 is FASTER"));
  EXPECT_TRUE(says("– not in this sweep", "No case"));
  EXPECT_TRUE(says("✗ 3 of 10", "1 trials gave a wrong answer, 2 crashed or hung, 5 were right"));
}

}  // namespace
}  // namespace wide::overview_test
