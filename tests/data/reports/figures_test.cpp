#include "data/reports/sweep/figures.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

namespace wide::figures_test {
namespace {

Case case_of(int64_t n, Status status, const std::string& reason, double other_load) {
  Case c;
  c.target = "linear";
  c.mode = "default";
  c.n = n;
  c.other_load = other_load;
  c.disturbed = other_load > 0;
  Trial good;
  good.strategy = good.timing.name = "einsum";
  good.speedup = Speedup{Interval{2, 1.9, 2.1}, {1.5, 1.4, 1.6}, "threads"};
  Trial bad;
  bad.strategy = bad.timing.name = "vmap";
  bad.status = status;
  bad.reason = reason;
  c.trials = {good, bad};
  return c;
}

std::vector<std::string> notes(const std::vector<Case>& cases) {
  return figures_of(cases, {}).at(0).notes;
}

TEST(Figures, NoLineGoesThroughTwoKindsOfHardware) {
  std::vector<Case> cases;
  for (const int64_t n : {4, 8, 16, 32}) cases.push_back(case_of(n, Status::ok, "", 0));
  cases[0].machine = "a: one CPU, 2 cores";
  cases[1].machine = "b: one CPU, 2 cores";
  cases[2].machine = cases[3].machine = "c: one CPU, 4 cores";
  const std::vector<Figure> figures = figures_of(cases, {});
  ASSERT_EQ(figures.size(), 2u);
  for (const Figure& f : figures)
    for (const Curve& k : f.curves) EXPECT_LE(k.points.size(), 2u) << k.name;
  EXPECT_TRUE(figures[0].subtitle.ends_with("one CPU, 2 cores")) << figures[0].subtitle;
  EXPECT_TRUE(figures[1].subtitle.ends_with("one CPU, 4 cores")) << figures[1].subtitle;
}

TEST(Figures, NotesSayWhatIsLeftOutAndWhy) {
  EXPECT_EQ(
      notes({case_of(4, Status::unsupported, "no rule", 0),
             case_of(8, Status::unsupported, "no rule", 0),
             case_of(16, Status::unsupported, "no rule", 0), case_of(32, Status::crashed, "", 0)}),
      (std::vector<std::string>{"vmap at N=4, 8 and 16 is not drawn: unsupported, no rule",
                                "vmap at N=32 is not drawn: crashed"}));
  EXPECT_EQ(notes({case_of(4, Status::incorrect, "error 0.1", 0)}),
            (std::vector<std::string>{"vmap at N=4 is a cross: incorrect, error 0.1"}));
}

TEST(Figures, NotesSayWhichTimesAreNotToBeTrusted) {
  EXPECT_EQ(
      notes({case_of(4, Status::ok, "", 0.2), case_of(8, Status::ok, "", 0.456),
             case_of(16, Status::ok, "", 0)}),
      (std::vector<std::string>{"times at N=4 and 8 are not to be trusted: other programs took 20 "
                                "to 46 % of the cores meanwhile"}));
  EXPECT_EQ(notes({case_of(4, Status::ok, "", 0.3)}),
            (std::vector<std::string>{"times at N=4 are not to be trusted: other programs took 30 "
                                      "% of the cores meanwhile"}));
}

TEST(Figures, PublishedLinesAreOfForwardCallsInFloat32) {
  const auto published = [](const std::string& phase, const std::string& dtype) {
    Case c = case_of(4, Status::ok, "", 0);
    c.phase = phase;
    c.dtype = dtype;
    FigureOptions options;
    options.published = true;
    return figures_of({c}, options).at(0).published.has_value();
  };
  EXPECT_TRUE(published("forward", "f32"));
  EXPECT_FALSE(published("backward", "f32"));
  EXPECT_FALSE(published("step", "f32"));
  EXPECT_FALSE(published("forward", "f16"));
}

TEST(Figures, PublishedLinesAreThoseOfThePublishedPreset) {
  std::ifstream file(std::string(std::getenv("WORKBENCH_SOURCE")) + "/presets/published.csv");
  std::map<std::string, std::map<double, double>> expected, drawn;
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    std::string target, n, speedup;
    std::getline(std::getline(std::getline(cells, target, ','), n, ','), speedup);
    if (line[0] != '#' && n != "n") expected[target][std::stod(n)] = std::stod(speedup);
  }
  ASSERT_TRUE(expected.count("resnet18"));
  for (const auto& [target, unused] : expected) {
    Case c = case_of(4, Status::ok, "", 0);
    c.target = target;
    c.phase = "forward";
    c.dtype = "f32";
    FigureOptions options;
    options.published = true;
    const auto line = figures_of({c}, options).at(0).published;
    if (!line) continue;
    EXPECT_FALSE(line->comparable);
    for (const Point& p : line->points) drawn[target][p.x] = p.y;
  }
  EXPECT_EQ(drawn, expected);
}

TEST(Figures, NotesOfSeveralModesNameEachNOnce) {
  std::vector<Case> cases;
  for (const char* mode : {"default", "eager"})
    for (const int64_t n : {8, 4}) {
      cases.push_back(case_of(n, Status::unsupported, "no rule", 0.3));
      cases.back().mode = mode;
      cases.push_back(cases.back());
    }
  const std::string not_drawn = "at N=4 and 8 is not drawn: unsupported, no rule";
  const std::string disturbed =
      "at N=4 and 8 are not to be trusted: other programs took 30 % of the cores meanwhile";
  EXPECT_EQ(notes(cases),
            (std::vector<std::string>{"vmap · default " + not_drawn, "vmap · eager " + not_drawn,
                                      "times " + disturbed}));
  for (Case& c : cases) c.disturbed = c.mode == "eager";
  EXPECT_EQ(notes(cases).back(), "times of eager " + disturbed);
}

}  // namespace
}  // namespace wide::figures_test
