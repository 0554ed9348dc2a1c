// The figure of a training run, from its document as from the store.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data/plot/svg.h"
#include "data/reports/run/run_figure.h"
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

TEST(RunFigure, GroupsAreByValuesThatDifferInLateDigits) {
  RunReport report = document(6, 5);
  for (size_t m = 0; m < 6; ++m)
    report.models[m].hyperparameters = {{"beta2", m < 3 ? 0.99995 : 0.99999}};
  RunFigureOptions options;
  options.training = false;
  const CurvesFigure figure =
      run_figure({std::make_shared<const RunHistory>(run_history(report))}, options);
  ASSERT_EQ(figure.groups.size(), 2u);
  EXPECT_EQ(std::set({figure.groups[0].name, figure.groups[1].name}),
            std::set<std::string>({"beta2=0.99995 (3 models)", "beta2=0.99999 (3 models)"}));
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

/// A run of three models whose monitored metric is `monitor`, with the values of `at` and a
/// training loss of 0.5.
std::shared_ptr<const RunHistory> monitored(int64_t id, const std::string& monitor, bool more,
                                            double (*at)(int64_t model, int64_t step)) {
  RunHistory run = run_head(stored_report(3, 30, monitor, "complete"));
  run.id = id;
  run.monitor = monitor;
  run.more_is_better = more;
  for (int64_t m = 0; m < 3; ++m)
    for (const int64_t step : {10, 20, 30}) {
      run.add(monitor, m, step, at(m, step));
      run.add("train_loss", m, step, 0.5);
    }
  return std::make_shared<const RunHistory>(std::move(run));
}

TEST(RunFigure, RunsWithDifferentMonitorsAreComparedByThatOfTheFirst) {
  const auto accuracy = monitored(1, "accuracy", true, [](int64_t m, int64_t step) {
    return 0.25 * double(m) + 0.001 * double(step);
  });
  const auto loss = monitored(2, "loss", false, [](int64_t m, int64_t step) {
    return 5.0 + double(m) - 0.01 * double(step);
  });
  EXPECT_DOUBLE_EQ(best_value(*accuracy, 1, "accuracy", true)->value, 0.28);
  EXPECT_EQ(best_value(*accuracy, 1, "accuracy", true)->step, 30);
  EXPECT_FALSE(best_value(*loss, 1, "accuracy", true)) << "it has no accuracy";
  const CurvesFigure figure = run_figure({accuracy, loss}, {});
  EXPECT_EQ(figure.total, 6u);
  EXPECT_EQ(figure.shown, 3u) << "the second run has no line";
  EXPECT_EQ(figure.lines.size(), 3u);
  ASSERT_EQ(figure.labelled.size(), 3u);
  for (size_t k = 0; k < 3; ++k)
    EXPECT_EQ(figure.lines[figure.labelled[k]].key, int64_t(2 - k)) << "the best one first";
  // By the loss: that of the second run is no accuracy, so nothing orders its models.
  RunFigureOptions options;
  options.metric = "loss";
  const CurvesFigure by_loss = run_figure({accuracy, loss}, options);
  EXPECT_EQ(by_loss.shown, 6u) << "the training losses of the first run, both of the second";
  options.training = false;
  EXPECT_EQ(run_figure({accuracy, loss}, options).shown, 3u);
}

/// The first element of a kind in an SVG document.
std::string element(const std::string& svg, const std::string& kind) {
  const size_t at = svg.find("data-kind=\"" + kind + "\"");
  return at == std::string::npos ? "" : svg.substr(at, svg.find("</g>", at) - at);
}

TEST(RunFigure, AStoppedEndIsADotAndADivergedOneACross) {
  const auto run = std::make_shared<const RunHistory>(run_history(document(7, 5)));
  const std::string svg = curves_document(run_figure({run}, {}), "");
  EXPECT_NE(element(svg, "stopped").find("<circle"), std::string::npos);
  EXPECT_EQ(element(svg, "stopped").find("<path"), std::string::npos);
  EXPECT_NE(element(svg, "diverged").find("<path"), std::string::npos);
  EXPECT_EQ(element(svg, "diverged").find("<circle"), std::string::npos);
}

TEST(RunFigure, TheRawLineStaysBehindTheSmoothedOne) {
  const auto run = std::make_shared<const RunHistory>(run_history(document(7, 5)));
  RunFigureOptions options;
  const CurvesFigure plain = run_figure({run}, options);
  options.smoothing = 0.9;
  const CurvesFigure smooth = run_figure({run}, options);
  const auto same = [](const std::vector<Point>& a, const std::vector<Point>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const Point& p, const Point& q) { return p.x == q.x && p.y == q.y; });
  };
  ASSERT_EQ(smooth.lines.size(), plain.lines.size());
  for (size_t i = 0; i < plain.lines.size(); ++i) {
    EXPECT_TRUE(same(smooth.lines[i].raw, plain.lines[i].points)) << i;
    EXPECT_TRUE(plain.lines[i].raw.empty());
  }
  for (size_t g = 0; g < plain.groups.size(); ++g) {
    EXPECT_TRUE(same(smooth.groups[g].raw, plain.groups[g].median)) << g;
    EXPECT_FALSE(same(smooth.groups[g].median, plain.groups[g].median)) << g;
  }
  // Both are drawn: of a configuration's median, and of the line that is looked at.
  const auto lines_of = [](const std::string& text) {
    size_t found = 0;
    for (size_t at = text.find("<polyline"); at != std::string::npos;
         at = text.find("<polyline", at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(lines_of(element(curves_document(plain, ""), "group")), 1u);
  EXPECT_EQ(lines_of(element(curves_document(smooth, ""), "group")), 2u);
  SvgCanvas canvas(900, 500);
  const CurvesLayout layout = curves_layout(canvas, smooth, {0, 0, 900, 500});
  CurvesLook look;
  look.lit = smooth.lines[0].key;
  draw_curves(canvas, smooth, fitted_axes(smooth, layout.plot), layout, look);
  EXPECT_EQ(lines_of(element(canvas.document(""), "lit")), 2u);
}

}  // namespace
}  // namespace wide::run_figure_test
