// The panels of training runs, driven by clicks, and what they show against the store.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <thread>

#include "app/explorer/window/png.h"
#include "engine/machine/clock.h"
#include "tests/app/explorer/opengl_platform.h"
#include "tests/app/explorer/stored.h"
#include "tests/data/store/stored_run.h"

namespace wide::training_test {
namespace {

class ExplorerTraining : public ::testing::Test {
 protected:
  void open(Settings settings = {}) {
    settings.view = "training";
    screen_ = screen_on(file_.path(), settings);
    driver_ = std::make_unique<Driver>(*screen_);
    for (const char* panel : {"trainings", "models", "scatter"}) screen_->explorer().show(panel);
    driver_->settle();
  }
  const TrainingView& view() const { return *screen_->explorer().training.view(); }
  /// Best loss of a model, from the store's table alone.
  std::vector<double> best_by_sql(int64_t run) const {
    SQLite::Database db(file_.path(), SQLite::OPEN_READONLY);
    SQLite::Statement query(db,
                            "SELECT min(value) FROM run_metric WHERE run = ? AND metric = 'loss' "
                            "GROUP BY model ORDER BY model");
    query.bind(1, run);
    std::vector<double> best;
    while (query.executeStep()) best.push_back(query.getColumn(0).getDouble());
    return best;
  }
  StoreFile file_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(ExplorerTraining, WithoutARunItSaysWhatToDo) {
  Store::create(file_.path());
  open();
  EXPECT_TRUE(driver_->sees("No training run is stored"));
}

TEST_F(ExplorerTraining, MediansQuartilesAndEndsAreThoseOfTheStore) {
  store_run(file_.path(), 8, 13);
  open();
  const CurvesFigure& figure = view().figure;
  EXPECT_TRUE(driver_->sees("8 of 8 models shown"));
  // Three configurations, each with its validation and its training loss.
  ASSERT_EQ(figure.groups.size(), 6u);
  ASSERT_EQ(figure.lines.size(), 16u);
  for (const CurveGroup& group : figure.groups) {
    std::vector<int64_t> models;
    for (int64_t m = 0; m < 8; ++m)
      if (group.name.find(fmt::format("lr={:.4g}", 0.001 * std::pow(3.0, double(m / 3)))) == 0)
        models.push_back(m);
    ASSERT_FALSE(models.empty()) << group.name;
    for (size_t i = 0; i < group.median.size(); ++i) {
      std::vector<double> values;  // as NumPy takes percentiles of them
      for (const int64_t m : models) {
        const int64_t step = 10 * static_cast<int64_t>(i + 1);
        if ((m == 7 && step > 20) || (m == 6 && step > 30)) continue;
        values.push_back((group.dashed ? 0.5 : 1) * stored_loss(m, static_cast<int64_t>(i)));
      }
      std::sort(values.begin(), values.end());
      const auto percentile = [&](double share) {
        const double at = share * double(values.size() - 1), below = std::floor(at);
        const auto k = static_cast<size_t>(below);
        return k + 1 < values.size() ? values[k] * (1 - at + below) + values[k + 1] * (at - below)
                                     : values[k];
      };
      EXPECT_NEAR(group.median[i].y, percentile(0.5), 1e-12) << group.name << i;
      EXPECT_NEAR(group.low[i].y, percentile(0.25), 1e-12) << group.name << i;
      EXPECT_NEAR(group.high[i].y, percentile(0.75), 1e-12) << group.name << i;
    }
  }
  for (const CurveLine& line : figure.lines)
    EXPECT_EQ(line.end, line.key == 7   ? CurveEnd::diverged
                        : line.key == 6 ? CurveEnd::stopped
                                        : CurveEnd::none);
  // The best five are labelled, the best one first.
  std::vector<double> best = best_by_sql(1);
  std::vector<int64_t> order(best.size());
  for (size_t m = 0; m < order.size(); ++m) order[m] = static_cast<int64_t>(m);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return best[static_cast<size_t>(a)] < best[static_cast<size_t>(b)];
  });
  ASSERT_EQ(figure.labelled.size(), 5u);
  for (size_t k = 0; k < 5; ++k) EXPECT_EQ(figure.lines[figure.labelled[k]].key, order[k]);
  EXPECT_NE(screen_->ui().items.find("end of model 7"), nullptr);
}

TEST_F(ExplorerTraining, TheTableHasWhatDiffersAndTheSpreadOverSeeds) {
  store_run(file_.path(), 8, 13);
  open();
  std::vector<std::string> titles;
  for (const ModelColumn& column : view().columns) titles.push_back(column.title);
  EXPECT_EQ(titles, (std::vector<std::string>{"model", "lr", "status", "best loss", "at step",
                                              "last loss", "± of seeds", "n"}));
  const std::vector<double> best = best_by_sql(1);
  for (const TrainedModel& m : view().models) {
    EXPECT_EQ(m.best, best[m.model]);
    const size_t first = m.model / 3 * 3, last = std::min<size_t>(8, first + 3);
    double mean = 0, squares = 0;
    for (size_t k = first; k < last; ++k) mean += best[k] / double(last - first);
    for (size_t k = first; k < last; ++k) squares += (best[k] - mean) * (best[k] - mean);
    EXPECT_NEAR(*m.spread, std::sqrt(squares / double(last - first - 1)), 1e-12);
    EXPECT_EQ(m.alike, last - first);
  }
  // The best one first; by a click on a head by that; a row lights its curve.
  const size_t winner =
      static_cast<size_t>(std::min_element(best.begin(), best.end()) - best.begin());
  driver_->click("row 1");
  EXPECT_EQ(screen_->explorer().training.lit(), static_cast<int64_t>(winner));
  driver_->click("model");
  driver_->settle();
  driver_->click("row 2");
  EXPECT_EQ(screen_->explorer().training.lit(), 1);
  driver_->click("Copy CSV");
  const std::string csv = screen_->ui().clipboard;
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "model,lr,status,best loss,at step,last loss,± of seeds,n");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 9);
  EXPECT_NE(csv.find(fmt::format("\n0,0.001,trained,{},", best[0])), std::string::npos) << csv;
}

TEST(ExplorerTrainingCells, StepsAndNumbersOfModelsHaveAllDigits) {
  RunHistory run = run_head(stored_report(1, 200'000, "long", "complete"));
  run.models[0].number = 1'234'567;
  run.add("loss", 0, 104'456, 0.123456789);
  const TrainingView view = training_view({std::make_shared<const RunHistory>(run)}, {});
  const auto cell = [&](const std::string& title) -> std::string {
    for (size_t c = 0; c < view.columns.size(); ++c)
      if (view.columns[c].title == title) return view.cell(view.models[0], c);
    return "no such column";
  };
  EXPECT_EQ(cell("model"), "1234567");
  EXPECT_EQ(cell("at step"), "104456");
  EXPECT_EQ(cell("best loss"), "0.12346");
  EXPECT_EQ(shown_number(-3), "-3");
  EXPECT_EQ(shown_number(2.5), "2.5");
  EXPECT_EQ(shown_number(1e300), "1e+300");
}

TEST_F(ExplorerTraining, ABoxInTheScatterFiltersCurvesAndTable) {
  store_run(file_.path(), 8, 13);
  open();
  const ScreenItem* area = screen_->ui().items.find("scatter");
  ASSERT_NE(area, nullptr);
  const ScreenItem* three = screen_->ui().items.find("point model 3");
  ASSERT_NE(three, nullptr);
  // From the top left of model 3 to the right end: all with a learning rate of 0.003 or more.
  screen_->input.x = static_cast<float>(three->box.x - 12);
  screen_->input.y = static_cast<float>(area->box.y + 1);
  screen_->frame();
  screen_->input.down[0] = screen_->input.pressed[0] = true;
  screen_->frame();
  screen_->input.x = static_cast<float>(area->box.right() - 1);
  screen_->input.y = static_cast<float>(area->box.bottom() - 1);
  screen_->frame();
  screen_->frame();
  screen_->input.down[0] = false;
  driver_->settle();
  EXPECT_TRUE(driver_->sees("5 of 8 models shown"));
  EXPECT_TRUE(driver_->sees("5 of 8 models"));
  EXPECT_EQ(view().figure.lines.size(), 10u);
  for (const CurveLine& line : view().figure.lines) EXPECT_GE(line.key, 3);
  driver_->click("Show all models");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("8 of 8 models shown"));
}

TEST_F(ExplorerTraining, ARunOfAnotherProcessAppearsAndGrowsWithinTwoSeconds) {
  store_run(file_.path(), 4, 5);
  open();
  Store store = Store::create(file_.path());
  const std::string run = store.begin_run(stored_run(6, 130, "later"), "", 0);
  double begun = now_s();
  driver_->await("later", 10);
  EXPECT_LT(now_s() - begun, 2);
  driver_->click("training run " + run);
  store.add_run_rows(stored_rows(run, 6, 0, 4));
  driver_->settle();
  driver_->await("6 of 6 models shown", 10);
  EXPECT_EQ(view().runs[0]->last_step(), 40);
  EXPECT_EQ(view().figure.x_end, 130) << "the axis is as long as the run will be";
  // It grows: the faint lines are drawn on, not anew.
  store.add_run_rows(stored_rows(run, 6, 4, 9));
  begun = now_s();
  while (view().runs[0]->last_step() < 90 && now_s() - begun < 10) screen_->frame();
  EXPECT_LT(now_s() - begun, 2);
}

TEST_F(ExplorerTraining, AStoreThatStaysAsItIsIsNotReadAgain) {
  store_run(file_.path(), 4, 5);
  open();
  Explorer& explorer = screen_->explorer();
  const auto reads_within = [&](double seconds) {
    bool any = false;
    for (const double end = now_s() + seconds; now_s() < end && !any;) {
      screen_->frame();
      any = explorer.jobs.busy("training") || explorer.watching();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return any;
  };
  EXPECT_FALSE(reads_within(2.5)) << "nothing trains, and nothing was written";
  Store store = Store::create(file_.path());
  const std::string run = store.begin_run(stored_run(6, 130, "later"), "", 0);
  EXPECT_TRUE(reads_within(10)) << "it was written";
  explorer.training.choose(std::stoll(run));
  driver_->await("run 2 · later · running");
  driver_->settle();
  EXPECT_TRUE(reads_within(10)) << "a run goes on";
  store.end_run(run, stored_run(6, 130, "later", "complete"));
  driver_->await("run 2 · later · complete");
  for (int i = 0; i < 3; ++i) {  // what was written is noticed after it is read
    reads_within(1);
    driver_->settle();
  }
  EXPECT_FALSE(reads_within(2.5)) << "it has ended";
}

TEST_F(ExplorerTraining, AModelAndARunAreAskedToStop) {
  Store store = Store::create(file_.path());
  const std::string run = store.begin_run(stored_run(6, 130), "", 0);
  store.add_run_rows(stored_rows(run, 6, 0, 4));
  open();
  EXPECT_FALSE(screen_->ui().items.find("Stop model")->enabled);
  driver_->click("model");
  driver_->settle();
  driver_->click("row 3");
  driver_->click("Stop model");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("asked model 2 of run 1 to stop at its next evaluation"));
  driver_->click("Stop run");
  driver_->settle();
  std::vector<int64_t> asked;
  for (const RunRequest& r : store.take_requests(run, 0)) asked.push_back(r.model);
  EXPECT_EQ(asked, (std::vector<int64_t>{2, -1}));
  store.end_run(run, stored_run(6, 130, "digits", "complete"));
  screen_->explorer().training.refresh();
  driver_->settle();
  EXPECT_EQ(screen_->ui().items.find("Stop run"), nullptr) << "it has ended";
}

TEST_F(ExplorerTraining, ModelsThatAreStoppedOneRightAfterTheOtherAllAre) {
  Store store = Store::create(file_.path());
  const std::string run = store.begin_run(stored_run(6, 130), "", 0);
  store.add_run_rows(stored_rows(run, 6, 0, 4));
  open();
  // Two long jobs take both threads meanwhile.
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  for (const char* key : {"long", "longer"})
    screen_->explorer().jobs.start(key, [gone]() -> Jobs::Result {
      gone.wait();
      return {};
    });
  std::vector<std::string> said;
  for (const int64_t model : {1, 5, 3})
    screen_->explorer().training.stop(model,
                                      [&](const std::string& line) { said.push_back(line); });
  go.set_value();
  driver_->settle();
  EXPECT_EQ(said.size(), 3u);
  std::vector<int64_t> asked;
  for (const RunRequest& r : store.take_requests(run, 0)) asked.push_back(r.model);
  std::sort(asked.begin(), asked.end());
  EXPECT_EQ(asked, (std::vector<int64_t>{1, 3, 5}));
}

TEST_F(ExplorerTraining, WhatWasChosenOfARunThatIsDeletedHoldsForNoOther) {
  Store store = Store::create(file_.path());
  const std::string small = store.begin_run(stored_run(1, 130, "small"), "", 0);
  store.add_run_rows(stored_rows(small, 1, 0, 4));
  store_run(file_.path(), 60, 4, "many");
  open();
  TrainingModel& training = screen_->explorer().training;
  ASSERT_EQ(training.run(), 2);
  training.lay_over(1);
  driver_->settle();
  driver_->await("61 of 61 models");
  training.brush(std::set<int64_t>{40, 50, kRunKey});
  training.light(50);
  RunFigureOptions options = training.options();
  options.metric = "train_loss";
  options.by = {"lr"};
  training.set_options(options);
  driver_->settle();
  {
    SQLite::Database db(file_.path(), SQLite::OPEN_READWRITE);
    db.exec("PRAGMA foreign_keys = ON; DELETE FROM run WHERE id = 2");
  }
  training.refresh();
  driver_->settle();
  driver_->await("1 of 1 models");
  driver_->settle();
  EXPECT_EQ(training.run(), 1);
  EXPECT_EQ(training.over(), 0);
  EXPECT_EQ(training.lit(), -1);
  EXPECT_FALSE(training.brushed());
  EXPECT_EQ(training.options(), RunFigureOptions());
  ASSERT_EQ(view().runs.size(), 1u);
  // A number that no model of this run has stops nothing.
  training.light(50);
  driver_->settle();
  EXPECT_FALSE(screen_->ui().items.find("Stop model")->enabled);
}

TEST_F(ExplorerTraining, OptionsChangeWhatIsDrawn) {
  store_run(file_.path(), 8, 13);
  store_run(file_.path(), 5, 4, "other");
  open();
  screen_->explorer().training.choose(1);
  driver_->settle();
  driver_->await("8 of 8 models shown");
  driver_->click("training loss");
  driver_->settle();
  EXPECT_EQ(view().figure.lines.size(), 8u);
  driver_->click("log");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("loss, logarithmic against training steps"));
  driver_->click("along the axis");
  driver_->click("epoch");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("against epochs"));
  EXPECT_EQ(view().figure.lines[0].points.back().x, 130.0 / 4);
  driver_->click("smoothing");
  driver_->click("smoothed 0.5");
  driver_->settle();
  const CurveLine& line = view().figure.lines[0];
  // By hand: (0.5 a + b) / 1.5, weights taken out of the first value.
  EXPECT_NEAR(line.points[1].y, (0.5 * line.raw[0].y + line.raw[1].y) / 1.5, 1e-12);
  driver_->click("second run");
  driver_->click("and run 2 · other");
  driver_->settle();
  driver_->await("13 of 13 models shown");
  EXPECT_EQ(view().columns[0].title, "run");
}

TEST_F(ExplorerTraining, ASecondRunWithoutTheMetricHasNoBestValues) {
  Store store = Store::create(file_.path());
  RunReport report = stored_report(3, 30, "accurate", "complete");
  report.monitor = {"accuracy", true};
  const std::string run = store.begin_run(to_json(report), "", 0);
  nlohmann::ordered_json rows = stored_rows(run, 3, 0, 3);
  for (auto& row : rows["rows"])
    if (row[1] == "loss") {
      row[1] = "accuracy";
      row[3] = row[3].get<double>() / 8;
    }
  store.add_run_rows(rows);
  store.end_run(run, to_json(report));
  store_run(file_.path(), 5, 4, "losing");
  open();
  screen_->explorer().training.choose(1);
  screen_->explorer().training.lay_over(2);
  driver_->settle();
  driver_->await("3 of 8 models shown");
  EXPECT_EQ(view().compared, "accuracy");
  ASSERT_EQ(view().models.size(), 8u);
  for (const TrainedModel& m : view().models) {
    EXPECT_EQ(m.best.has_value(), m.run == 0) << m.key;
    EXPECT_EQ(m.spread.has_value(), m.run == 0) << m.key;
  }
  EXPECT_FALSE(driver_->sees("The models shown have no accuracy"));
  EXPECT_EQ(screen_->ui().items.find("point run 2 model 0"), nullptr);
  EXPECT_NE(screen_->ui().items.find("point run 1 model 0"), nullptr);
  // By the best accuracy: the models without one come last.
  const std::vector<size_t> order = sorted_models(view(), view().best_column, true, {});
  for (size_t i = 0; i < order.size(); ++i)
    EXPECT_EQ(view().models[order[i]].run, i < 3 ? 0u : 1u) << i;
  // The models of the second run alone.
  screen_->explorer().training.brush(std::set<int64_t>{kRunKey, kRunKey + 1});
  driver_->settle();
  EXPECT_TRUE(driver_->sees("The models shown have no accuracy"));
  EXPECT_FALSE(driver_->sees("No evaluation is stored yet"));
}

TEST_F(ExplorerTraining, TooltipsNameTheRunAndSayWhatIsSaved) {
  Store store = Store::create(file_.path());
  RunReport report = stored_report(2, 40, "other");
  report.run.dir.clear();
  const std::string run = store.begin_run(to_json(report), "", 0);
  store.add_run_rows(stored_rows(run, 2, 0, 4));
  store_run(file_.path(), 8, 13);
  open();
  screen_->explorer().training.lay_over(1);
  driver_->settle();
  driver_->await("10 of 10 models shown");
  driver_->settle();
  driver_->hover("point run 1 model 1");
  const auto says = [&](const std::string& text) {
    const auto& items = screen_->ui().items.last();
    return std::any_of(items.begin(), items.end(), [&](const ScreenItem& i) {
      return i.kind == ItemKind::text && i.label == text;
    });
  };
  EXPECT_TRUE(says("run 1 model 1"));
  EXPECT_FALSE(says("model 1")) << "of which run?";
  // That run has no folder: nothing is saved when it stops.
  screen_->explorer().training.choose(1);
  driver_->settle();
  driver_->await("2 of 2 models shown");
  ASSERT_NE(screen_->ui().items.find("Stop run"), nullptr);
  EXPECT_NE(screen_->ui().items.find("Stop run")->tip.find("It is not saved"), std::string::npos);
}

TEST_F(ExplorerTraining, NothingIsCutOffOrOverlapsAtAnySize) {
  store_run(file_.path(), 60, 13);
  store_run(file_.path(), 8, 13, "a run with a name that is rather long");
  for (const auto& [width, height, scale] :
       {std::tuple(900, 600, 1.0), {1280, 800, 1.0}, {1920, 1200, 1.5}, {2560, 1440, 1.0}})
    for (const bool dark : {false, true}) {
      Settings settings;
      settings.width = width;
      settings.height = height;
      settings.scale = scale;
      settings.dark = dark;
      open(settings);
      for (const int64_t run : {1, 2}) {
        screen_->explorer().training.choose(run);
        driver_->settle();
        driver_->await(run == 1 ? "60 of 60 models" : "8 of 8 models");
        driver_->settle();
        for (const std::string& fault : layout_faults(screen_->ui().items.last(), width, height))
          ADD_FAILURE() << width << "x" << height << " run " << run << ": " << fault;
      }
    }
}

/// Pictures to look at, where WORKBENCH_PICTURES names a folder.
TEST_F(ExplorerTraining, WithoutADisplayThereAreNoErrorsOfOpenGl) {
  store_run(file_.path(), 60, 40);
  const char* folder = std::getenv("WORKBENCH_PICTURES");
  for (const auto& [width, height] : {std::pair(900, 600), {1280, 800}, {2560, 1440}}) {
    Settings settings;
    settings.width = width;
    settings.height = height;
    settings.view = "training";
    Screen screen(opengl_platform(width, height), file_.path(), settings);
    Driver driver(screen);
    for (const char* panel : {"trainings", "models", "scatter"}) screen.explorer().show(panel);
    driver.settle();
    driver.click("row 2");
    driver.settle();
    EXPECT_EQ(screen.platform().gl_errors(), 0);
    if (folder)
      write_png(fmt::format("{}/training-{}.png", folder, width), screen.platform().pixels());
  }
}

}  // namespace
}  // namespace wide::training_test
