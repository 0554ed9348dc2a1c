// The figure of a training run, from its document as from the store.
#include <gtest/gtest.h>

#include "data/reports/run_figure.h"
#include "tests/data/store/stored_run.h"

namespace wide::run_figure_test {
namespace {

/// With its history as `report.json` has it.
RunReport document(int64_t n, int64_t evaluations) {
  RunReport run = stored_report(n, 10 * evaluations, "digits", "complete");
  run.run.id = "12";
  for (int64_t i = 0; i < evaluations; ++i) {
    RunEvaluation& row = run.history.emplace_back();
    row.step = 10 * (i + 1);
    row.epoch = 2.5 * double(i + 1);
    row.seconds = 0.125 * double(i + 1);
    for (int64_t m = 0; m < n; ++m) {
      row.values["loss"].push_back(m == n - 1 && i > 1 ? std::nan("") : stored_loss(m, i));
      row.train_loss.push_back(stored_loss(m, i) / 2);
    }
  }
  return run_from_json(nlohmann::ordered_json::parse(to_json(run).dump()), "run.json");
}

TEST(RunFigure, ADocumentsHistoryBecomesLines) {
  const auto run = std::make_shared<const RunHistory>(run_history(document(7, 5)));
  EXPECT_EQ(run->id, 12);
  EXPECT_EQ(run->metric("loss")->at(6).steps, (std::vector<int64_t>{10, 20}));
  RunFigureOptions options;
  options.along = "seconds";
  const CurvesFigure figure = run_figure({run}, options);
  EXPECT_EQ(figure.title, "run 12 · digits");
  EXPECT_EQ(figure.lines.size(), 14u);
  EXPECT_EQ(figure.groups.size(), 6u);
  EXPECT_EQ(figure.shown, 7u);
  EXPECT_EQ(figure.lines[0].points[3].x, 0.5);
}

TEST(RunFigure, GroupsAreByTheHyperparametersAskedFor) {
  const auto run = std::make_shared<const RunHistory>(run_history(document(7, 5)));
  RunFigureOptions options;
  options.by = {"weight_decay"};
  options.training = false;
  const CurvesFigure figure = run_figure({run}, options);
  ASSERT_EQ(figure.groups.size(), 1u);
  EXPECT_EQ(figure.groups[0].name, "weight_decay=0.01 (7 models)");
}

TEST(RunFigure, ManyConfigurationsHaveTheBestOnesInColour) {
  const auto run = std::make_shared<const RunHistory>(run_history(document(61, 3)));
  RunFigureOptions options;
  options.training = false;
  const CurvesFigure figure = run_figure({run}, options);
  ASSERT_EQ(figure.groups.size(), 21u);
  for (size_t g = 0; g < figure.groups.size(); ++g)
    EXPECT_EQ(figure.groups[g].colour.tone, g < kSeriesColours - 1 ? Tone::series : Tone::muted);
  EXPECT_EQ(figure.others, "10 other configurations, each model a faint line");
}

TEST(RunFigure, TheSvgHasALineForEveryModelAndACrossWhereOneDiverged) {
  const auto run = std::make_shared<const RunHistory>(run_history(document(7, 5)));
  const std::string svg = curves_document(run_figure({run}, {}), "workbench train");
  const auto count = [&](const std::string& text) {
    size_t found = 0;
    for (size_t at = svg.find(text); at != std::string::npos; at = svg.find(text, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("data-kind=\"curve\""), 14u);
  EXPECT_EQ(count("data-kind=\"group\""), 6u);
  EXPECT_EQ(count("data-kind=\"best\""), 5u);
  EXPECT_EQ(count("data-kind=\"diverged\""), 1u);
  EXPECT_EQ(count("data-kind=\"stopped\""), 1u);
  EXPECT_EQ(count("data-kind=\"legend\""), 3u);
  EXPECT_NE(svg.find("7 of 7 models shown"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

}  // namespace
}  // namespace wide::run_figure_test
