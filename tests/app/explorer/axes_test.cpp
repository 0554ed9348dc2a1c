// Any two axes of a sweep as a matrix, any axis along a plot: figures that are known beforehand.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "app/explorer/models/trials/overview.h"
#include "tests/app/explorer/stored.h"

namespace wide::axes_test {
namespace {

using Names = std::vector<std::string>;

constexpr int64_t kWidths[] = {16, 32, 64}, kLengths[] = {256, 1024, 4096, 16384};
constexpr int64_t kNeeded = 7'000'000'000, kNeededToo = 9'000'000'000;

double speedup_at(int64_t d, int64_t t, int64_t n) {
  return double(t) / 256 + double(d) / 16 + double(n) / 100;
}
double time_at(int64_t d, int64_t t, bool backward, int64_t n) {
  return double(d * t * n) * (backward ? 3 : 1);
}

/// At the largest T the loop does not fit, at the largest D neither; one case takes too long.
Case grid_case(int64_t d, int64_t t, bool backward, int64_t n) {
  Case c;
  c.target = "naive_attention";
  c.shape = fmt::format("B8 T{} D{} causal0", t, d);
  c.dtype = "f32";
  c.device = "cpu";
  c.mode = "default";
  c.phase = backward ? "backward" : "forward";
  c.n = n;
  Trial wide;
  wide.strategy = wide.timing.name = "wide";
  wide.timing.kind = "candidate";
  Timing loop;
  loop.name = "loop";
  loop.kind = "baseline";
  const bool large = t == 16384, skipped = d == 64 && t == 4096 && backward;
  if (skipped || (large && d == 64)) {
    wide.status = skipped ? Status::skipped : Status::oom;
    wide.reason = skipped ? "takes too long" : "does not fit";
    wide.needed_bytes = skipped ? 0 : kNeededToo;
  } else {
    wide.timing.median_ns = time_at(d, t, backward, n);
    wide.timing.q1_ns = 0.9 * wide.timing.median_ns;
    wide.timing.q3_ns = 1.1 * wide.timing.median_ns;
    wide.timing.peak_bytes = 4 * d * t;
    wide.correctness = Correctness{1e-7, 1e-7, 1e-5, true, true, true, "", ""};
  }
  if (large || skipped) {
    c.missing.push_back({"loop", wide.status == Status::ok ? Status::oom : wide.status,
                         "the scores do not fit", skipped ? 0 : kNeeded});
  } else {
    const double s = speedup_at(d, t, n);
    wide.speedup = Speedup{Interval{s, 0.9 * s, 1.1 * s}, {s, 0.9 * s, 1.1 * s}, "loop"};
    wide.verdict = "FASTER";
    loop = wide.timing;
    loop.name = "loop";
    loop.kind = "baseline";
    loop.median_ns *= s;
    c.baselines.push_back(loop);
  }
  c.trials.push_back(wide);
  return c;
}

int64_t store_cases(const std::string& path, const std::vector<Case>& cases) {
  StoredCases plan = stored_plan("grid", {});
  plan.cases.clear();
  for (const Case& c : cases)
    plan.cases.push_back({c.target, c.shape, c.dtype, c.device, c.mode, c.phase, c.n, {"wide"}});
  Store store = Store::create(path);
  const int64_t sweep = store.begin(plan);
  for (size_t i = 0; i < cases.size(); ++i)
    store.add_case(sweep, static_cast<int64_t>(i), cases[i]);
  store.finish(sweep, "complete", {});
  return sweep;
}

std::vector<Case> grid_cases(const std::vector<int64_t>& ns) {
  std::vector<Case> cases;
  for (const int64_t d : kWidths)
    for (const int64_t t : kLengths)
      for (const bool backward : {false, true})
        for (const int64_t n : ns) cases.push_back(grid_case(d, t, backward, n));
  return cases;
}

class ExplorerAxes : public ::testing::Test {
 protected:
  const TrialTable& table(const std::vector<Case>& cases) {
    const int64_t sweep = store_cases(file_.path(), cases);
    table_ = std::make_unique<TrialTable>(Store::read(file_.path()).trials(sweep));
    axes_ = axes_of(*table_);
    return *table_;
  }
  Overview overview(const OverviewOptions& options) const {
    return overview_of(*table_, axes_, options);
  }
  /// What its cells say, line by line; "" where there is none.
  std::vector<Names> texts(const Overview& of) const {
    std::vector<Names> lines;
    for (const OverviewLine& line : of.lines) {
      Names& said = lines.emplace_back();
      for (size_t v = 0; v < of.heads.size(); ++v)
        said.push_back(line.cells.count(v) ? line.cells.at(v).text(of.measure, *table_) : "");
    }
    return lines;
  }
  Names names(const Overview& of) const {
    Names all;
    for (const OverviewLine& line : of.lines) all.push_back(line.name);
    return all;
  }

  StoreFile file_;
  std::unique_ptr<TrialTable> table_;
  std::vector<TableAxis> axes_;
};

TEST_F(ExplorerAxes, AreWhatTrialsDifferIn) {
  // Shapes in any order; a word and a number that not all have.
  std::vector<Case> cases{grid_case(32, 1024, true, 16), grid_case(16, 4096, false, 4),
                          grid_case(32, 256, true, 4)};
  cases.push_back(cases.front());
  cases.back().target = "other";
  cases.back().shape = "B3 L-1";
  table(cases);
  Names all;
  for (const TableAxis& axis : axes_) all.push_back(axis.name);
  EXPECT_EQ(all, (Names{"target", "strategy", "mode", "dtype", "device", "phase", "N", "B", "D",
                        "T", "causal", "L"}));
  EXPECT_EQ(find_axis(axes_, "target")->values, (Names{"naive_attention", "other"}));
  EXPECT_EQ(find_axis(axes_, "strategy")->values, (Names{"wide", "baseline loop"}));
  EXPECT_EQ(find_axis(axes_, "phase")->values, (Names{"backward", "forward"}));
  EXPECT_EQ(find_axis(axes_, "N")->values, (Names{"4", "16"}));
  EXPECT_EQ(find_axis(axes_, "T")->numbers, (std::vector<double>{256, 1024, 4096}));
  EXPECT_EQ(find_axis(axes_, "T")->label(1), "T=1024");
  EXPECT_EQ(find_axis(axes_, "target")->label(1), "other");
  EXPECT_EQ(find_axis(axes_, "nonsense"), nullptr);
  // Trials first, then baselines.
  EXPECT_EQ(find_axis(axes_, "T")->of_row, (std::vector<int32_t>{1, 2, 0, -1, 1, 2, 0, -1}));
  EXPECT_FALSE(find_axis(axes_, "causal")->positive());
  EXPECT_FALSE(find_axis(axes_, "L")->positive());
}

TEST_F(ExplorerAxes, AreSuggestedByWhatHasMoreValuesThanN) {
  using Pair = std::pair<std::string, std::string>;
  table(grid_cases({1}));
  EXPECT_EQ(matrix_axes(axes_), (Pair{"D", "T"}));
  EXPECT_EQ(plot_axis(axes_), "T");
  table(grid_cases({1, 4}));
  EXPECT_EQ(matrix_axes(axes_), (Pair{"D", "T"}));
  EXPECT_EQ(plot_axis(axes_), "N");
  table(grid_cases({1, 2, 3, 4}));
  EXPECT_EQ(matrix_axes(axes_), (Pair{"target", "N"}));
  std::vector<Case> two = grid_cases({1});
  two.front().target = "other";
  table(two);
  EXPECT_EQ(matrix_axes(axes_), (Pair{"target", "N"}));
  table({grid_case(16, 256, false, 2)});
  EXPECT_EQ(matrix_axes(axes_), (Pair{"target", "N"}));
  EXPECT_EQ(plot_axis(axes_), "N");
}

TEST_F(ExplorerAxes, AMatrixOfTwoSaysWhatFitsAndWhatDoesNot) {
  table(grid_cases({1}));
  const Overview forward = overview({"", "", Measure::speedup, {{"phase", "forward"}}});
  EXPECT_EQ(forward.heads, (Names{"T=256", "T=1024", "T=4096", "T=16384"}));
  EXPECT_EQ(names(forward), (Names{"D=16", "D=32", "D=64"}));
  EXPECT_EQ(texts(forward), (std::vector<Names>{{"2.01×", "5.01×", "17×", "fits"},
                                                {"3.01×", "6.01×", "18×", "fits"},
                                                {"5.01×", "8.01×", "20×", "OOM"}}));
  EXPECT_EQ(forward.lines.at(2).cells.at(3).needed, double(kNeededToo));
  const OverviewCell& alone = forward.lines.at(0).cells.at(3);
  EXPECT_EQ(table_->rows.at(size_t(alone.left_out)).needed_bytes, double(kNeeded));
  // What did not fit is not wrong.
  EXPECT_EQ(forward.lines.at(2).failed + forward.lines.at(2).incorrect, 0);
  EXPECT_EQ(forward.holds.size(), 1u);  // one target, one N: only the phase is left to choose
  const Overview backward = overview({"T", "D", Measure::speedup, {{"phase", "backward"}}});
  EXPECT_EQ(names(backward), (Names{"T=256", "T=1024", "T=4096", "T=16384"}));
  EXPECT_EQ(texts(backward).at(2), (Names{"17×", "18×", "skipped"}));
  EXPECT_EQ(texts(backward).at(3), (Names{"fits", "fits", "OOM"}));
}

TEST_F(ExplorerAxes, AMatrixShowsTimesAndMemoryToo) {
  table(grid_cases({1, 4}));
  const Overview time = overview({"D", "T", Measure::time, {{"N", "4"}, {"phase", "backward"}}});
  for (size_t d = 0; d < 3; ++d)
    for (size_t t = 0; t < 4; ++t) {
      const OverviewCell& cell = time.lines.at(d).cells.at(t);
      if (d == 2 && t >= 2)
        EXPECT_EQ(cell.row, -1);
      else
        EXPECT_EQ(cell.value, time_at(kWidths[d], kLengths[t], true, 4));
    }
  EXPECT_EQ(time.low, time_at(16, 256, true, 4));
  EXPECT_EQ(time.high, time_at(32, 16384, true, 4));
  EXPECT_NEAR(time.shade(time.low), 16, 1e-9);
  EXPECT_NEAR(time.shade(time.high), 1.0 / 16, 1e-9);
  EXPECT_NEAR(time.shade(std::sqrt(time.low * time.high)), 1, 1e-9);
  // Where nothing is held the least counts, which is that of one model's forward pass.
  EXPECT_EQ(overview({"D", "T", Measure::time, {}}).lines.at(0).cells.at(0).value,
            time_at(16, 256, false, 1));
  EXPECT_EQ(overview({"D", "T", Measure::memory, {}}).lines.at(1).cells.at(3).value,
            4.0 * 32 * 16384);
}

TEST_F(ExplorerAxes, AMatrixOfStrategiesHoldsTheBaselinesToo) {
  table(grid_cases({1}));
  const Overview of =
      overview({"strategy", "T", Measure::time, {{"phase", "forward"}, {"D", "64"}}});
  EXPECT_EQ(names(of), (Names{"wide", "baseline loop"}));
  EXPECT_EQ(of.lines.at(1).cells.at(1).value,
            time_at(64, 1024, false, 1) * speedup_at(64, 1024, 1));
  EXPECT_EQ(texts(of).at(0).at(3), "OOM");
  EXPECT_EQ(texts(of).at(1).at(3), "OOM");
  EXPECT_EQ(of.lines.at(1).cells.at(3).needed, double(kNeeded));
  // The best is over baselines already: they have no speedup of their own.
  EXPECT_EQ(names(overview({"strategy", "T", Measure::speedup, {}})), (Names{"wide"}));
}

TEST_F(ExplorerAxes, WhatIsNotThereIsAsSuggested) {
  table(grid_cases({1}));
  const auto axes = [&](const OverviewOptions& options) {
    const Overview of = overview(options);
    return of.rows + " by " + of.columns;
  };
  EXPECT_EQ(axes({"nonsense", "size", Measure::speedup, {}}), "D by T");
  EXPECT_EQ(axes({"T", "", Measure::speedup, {}}), "T by D");
  EXPECT_EQ(axes({"", "D", Measure::speedup, {}}), "T by D");
  EXPECT_EQ(axes({"phase", "", Measure::speedup, {}}), "phase by T");
  EXPECT_EQ(axes({"T", "T", Measure::speedup, {}}), "T by D");
}

/// One group for each width and phase, whose figure is that of the report along the same axis.
TEST_F(ExplorerAxes, APlotIsAlongAnyOfThem) {
  const std::vector<Case> cases = grid_cases({1, 4});
  table(cases);
  const std::vector<Group> groups = groups_of(*table_, "T");
  ASSERT_EQ(groups.size(), 3u * 2 * 2);
  EXPECT_EQ(groups.front().text(), "B8 D16 causal0 · N=1 · f32 · cpu · forward");
  EXPECT_EQ(groups.front().axis, "T");
  for (const Measure measure : {Measure::speedup, Measure::time, Measure::memory}) {
    FigureOptions options;
    options.axis = "T";
    options.measure = measure;
    const std::vector<Figure> expected =
        figures_of(Store::read(file_.path()).load(1).cases, options);
    ASSERT_EQ(expected.size(), groups.size());
    for (size_t g = 0; g < groups.size(); ++g) {
      const std::vector<Figure> own = figures_of(cases_of(*table_, groups[g]), options);
      ASSERT_EQ(own.size(), 1u);
      EXPECT_EQ(own[0].subtitle, expected[g].subtitle);
      EXPECT_EQ(own[0].notes, expected[g].notes);
      EXPECT_EQ(own[0].axis, "T");
      ASSERT_EQ(own[0].curves.size(), expected[g].curves.size());
      for (size_t k = 0; k < own[0].curves.size(); ++k)
        for (size_t i = 0; i < own[0].curves[k].points.size(); ++i) {
          const CurvePoint &a = own[0].curves[k].points[i], &b = expected[g].curves[k].points[i];
          EXPECT_EQ(a.n, b.n);
          EXPECT_EQ(a.value, b.value);
          EXPECT_EQ(a.about, b.about);
        }
    }
  }
  // Against what the cases were made of.
  FigureOptions options;
  options.axis = "T";
  options.measure = Measure::time;
  const Figure figure = figures_of(cases_of(*table_, groups.front()), options).front();
  EXPECT_EQ(figure.subtitle, "B8 D16 causal0 · N=1 · cpu · f32 · default · forward");
  ASSERT_EQ(figure.curves.size(), 2u);
  EXPECT_EQ(figure.curves[1].name, "baseline loop");
  ASSERT_EQ(figure.curves[0].points.size(), 4u);
  ASSERT_EQ(figure.curves[1].points.size(), 3u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(figure.curves[0].points[i].n, double(kLengths[i]));
    EXPECT_EQ(figure.curves[0].points[i].value, time_at(16, kLengths[i], false, 1));
  }
  EXPECT_EQ(figure.notes,
            (Names{"baseline loop at T=16384 is not drawn: oom, the scores do not fit"}));
}

TEST_F(ExplorerAxes, TrialsWithoutTheAxisStayAlongN) {
  std::vector<Case> cases = grid_cases({1, 4});
  for (const int64_t n : {2, 8}) {
    cases.push_back(grid_case(16, 256, false, n));
    cases.back().shape = "B5 L9";
  }
  table(cases);
  const std::vector<Group> groups = groups_of(*table_, "T");
  ASSERT_EQ(groups.size(), 13u);
  EXPECT_EQ(groups.back().axis, "N");
  EXPECT_EQ(groups.back().text(), "B5 L9 · f32 · cpu · forward");
  for (uint32_t row = 0; row < table_->rows.size(); ++row) {
    const Group& group = groups[group_with(groups, row)];
    EXPECT_EQ(
        group.place(*table_, table_->rows[row]),
        group.axis == "N"
            ? table_->rows[row].n
            : static_cast<int64_t>(
                  find_axis(axes_, "T")->numbers[size_t(find_axis(axes_, "T")->of_row[row])]));
  }
}

class ExplorerAxesDriver : public ::testing::Test {
 protected:
  void open(const Settings& s = {}) {
    screen_ = screen_on(file_.path(), s);
    driver_ = std::make_unique<Driver>(*screen_);
    driver_->settle();
  }
  void choose(const std::string& list, const std::string& entry) {
    driver_->click(list);
    driver_->click(entry);
    driver_->settle();
  }
  void expect_no_faults(const std::string& at, const Settings& s) {
    screen_->frame();
    for (const std::string& fault : layout_faults(screen_->ui().items.last(), s.width, s.height))
      ADD_FAILURE() << at << ": " << fault;
  }
  StoreFile file_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(ExplorerAxesDriver, ChoosesAxesAndColourAndRemembersThem) {
  store_cases(file_.path(), grid_cases({1}));
  open();
  EXPECT_TRUE(driver_->sees("fits"));
  EXPECT_TRUE(driver_->sees("OOM"));
  EXPECT_NE(screen_->ui().items.find("D=16 T=256"), nullptr);
  choose("held phase", "backward");
  EXPECT_TRUE(driver_->sees("skipped"));
  choose("rows", "T");
  EXPECT_NE(screen_->ui().items.find("T=256 D=16"), nullptr);
  choose("columns", "phase");
  EXPECT_NE(screen_->ui().items.find("T=256 backward"), nullptr);
  choose("colour", "memory");
  EXPECT_TRUE(driver_->sees("16.4 kB"));  // 4 x 16 x 256 bytes
  choose("columns", "T");                 // which the rows have: they are swapped
  EXPECT_NE(screen_->ui().items.find("backward T=256"), nullptr);
  const Settings& kept = screen_->explorer().settings;
  EXPECT_EQ(kept.matrix_rows, "phase");
  EXPECT_EQ(kept.matrix_columns, "T");
  EXPECT_EQ(kept.colour, "memory");
  save_settings(file_.path("settings.json"), kept);
  open(load_settings(file_.path("settings.json")));
  EXPECT_NE(screen_->ui().items.find("backward T=256"), nullptr);
  EXPECT_TRUE(driver_->sees("16.4 kB"));
}

TEST_F(ExplorerAxesDriver, FromACellToItsPointAlongItsAxis) {
  store_cases(file_.path(), grid_cases({1, 4}));
  Settings settings;
  settings.measure = "time";
  open(settings);
  choose("held phase", "forward");
  choose("held N", "N=4");
  driver_->click("D=32 T=1024");
  driver_->settle();
  EXPECT_EQ(screen_->explorer().shown(Place::middle), "plot");
  choose("along", "along T");
  EXPECT_EQ(screen_->explorer().settings.axis, "T");
  driver_->click("baseline loop T=4096");
  driver_->settle();
  const Library& library = screen_->explorer().library;
  ASSERT_TRUE(library.point());
  EXPECT_TRUE(library.point()->baseline);
  EXPECT_EQ(library.point()->n, 4);
  EXPECT_EQ(library.detail()->of.shape, "B8 T4096 D32 causal0");
  EXPECT_EQ(screen_->ui().items.find("baseline loop T=16384"), nullptr);
  EXPECT_TRUE(driver_->sees("baseline loop at T=16384 is not drawn: oom, the scores do not fit"));
  screen_->explorer().show("correctness");
  driver_->settle();
  EXPECT_NE(screen_->ui().items.find("check wide T=4096"), nullptr);
  // What does not fit says what it needs.
  screen_->explorer().show("matrix");
  driver_->click("D=64 T=16384");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("9.0 GB by estimate"));
}

TEST_F(ExplorerAxesDriver, NothingIsCutOffOrOverlaps) {
  store_cases(file_.path(), grid_cases({1, 4}));
  for (const double scale : {1.0, 2.0}) {
    Settings s;
    s.scale = scale;
    s.width = static_cast<int>(1280 * scale);
    s.height = static_cast<int>(800 * scale);
    s.axis = "T";
    open(s);
    expect_no_faults("matrix", s);
    driver_->click("rows");
    expect_no_faults("rows", s);
    driver_->press("Escape");
    screen_->explorer().show("plot");
    driver_->settle();
    expect_no_faults("plot", s);
    driver_->click("along");
    expect_no_faults("along", s);
    driver_->press("Escape");
  }
}

}  // namespace
}  // namespace wide::axes_test
