// The timeline of a fused program: what the window shows is what the report has.
#include <gtest/gtest.h>

#include "app/explorer/models/fusions/timeline.h"
#include "data/reports/sweep/chrome_trace.h"
#include "data/reports/sweep/report_json.h"
#include "data/reports/sweep/report_read.h"
#include "tests/app/explorer/stored.h"

namespace wide::timeline_test {
namespace {

/// Two threads of a machine of 200 GFLOP/s; a step of 100 µs on one of them.
FuseReport planted() {
  FuseReport report;
  report.model = "net";
  report.device = "cpu";
  report.dtype = "f32";
  report.mode = "default";
  report.environment.threads = 2;
  report.environment.peak_flops_per_s = {{"f32", 2e11}};
  report.environment.peak_bytes_per_s = 4e10;
  FuseResult& result = report.curve.emplace_back();
  result.n = 3;
  Timing wide;
  wide.name = "wide";
  wide.kind = "candidate";
  wide.median_ns = 3e5;
  result.results = {wide};
  TimelineCall& loop = result.timeline.emplace_back();
  loop.name = "loop";
  loop.calls = 11;
  loop.call_ns = 9e5;
  loop.cores_a_lane = 2;
  loop.lanes = {"the thread that calls"};
  loop.items.resize(2);
  loop.items[0].kind = "model";
  loop.items[0].name = "model 0";
  loop.items[1].kind = "operator";
  loop.items[1].name = "aten::conv2d";
  loop.spans = {{0, 0, -1, 0, 9e5}, {1, 0, -1, 1e5, 8e5}};
  TimelineCall& call = result.timeline.emplace_back();
  call.name = "wide";
  call.calls = 11;
  call.call_ns = 4e5;
  call.lanes = {"thread 0, core 1", "thread 1"};
  call.items.resize(2);
  call.items[0].kind = "range";
  call.items[0].name = "models 0-1";
  call.items[1] = {"step",     "wide::winograd_convolution",
                   "body.0",   "conv2d",
                   "winograd", "f32[2, 1]",
                   7,          3e7,
                   5e6,        1.5e6};
  call.spans = {{0, 1, 3, 1e4, 3e5}, {1, 1, 3, 5e4, 1.5e5}};
  call.notes = {"a note"};
  return report;
}

TEST(ExplorerTimeline, BarsLieInTheirLanesInsideEachOther) {
  const TimelineView view = timeline_view(planted());
  ASSERT_EQ(view.lanes.size(), 3u);
  EXPECT_EQ(view.end_ns, 9e5);
  EXPECT_EQ(view.lanes[0].title, "loop: one call for N=3, 900 µs traced");
  EXPECT_EQ(view.lanes[1].title, "wide: one call for N=3, 400 µs traced, 300 µs untraced");
  EXPECT_TRUE(view.lanes[1].bars.empty());
  ASSERT_EQ(view.lanes[2].bars.size(), 2u);
  EXPECT_EQ(view.lanes[2].bars[0].depth, 0);
  EXPECT_EQ(view.lanes[2].bars[1].depth, 1);
  EXPECT_NE(view.lanes[2].bars[0].series, view.lanes[2].bars[1].series);
  EXPECT_EQ(view.notes, std::vector<std::string>{"a note"});
}

TEST(ExplorerTimeline, ABarSaysWhereItComesFromAndHowNearThePeaksItIs) {
  const TimelineView view = timeline_view(planted());
  const std::vector<std::string> lines = bar_details(view, {2, 1});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0],
            "wide::winograd_convolution · 100 µs from 50 µs on · conv2d / winograd · thread 1, "
            "core 3");
  EXPECT_EQ(lines[1], "node 7 of one model's program, module body.0 · makes f32[2, 1]");
  // 3e7 FLOP in 100 µs are 300 GFLOP/s; one of two cores has 100.
  EXPECT_NE(lines[2].find("300 % of the arithmetic peak of one core by the definition; its kernel "
                          "computes 17 % of that work, at 50 %"),
            std::string::npos)
      << lines[2];
  EXPECT_NE(lines[2].find("75 % of the bandwidth of one core"), std::string::npos) << lines[2];
  EXPECT_EQ(bar_details(view, {0, 1}).size(), 1u);  // of an operator of the loop no more is known
}

TEST(ExplorerTimeline, TheReportKeepsTheTimelineAndLeavesOutWhatBelongsNowhere) {
  nlohmann::ordered_json json = to_json(planted());
  const FuseReport back = fuse_from_json(json, "planted", UnknownFields::refused);
  EXPECT_EQ(to_json(back), json);
  for (const char* column : {"item", "lane"}) {
    nlohmann::ordered_json wrong = json;
    wrong["timeline"][1]["spans"][column][1] = 99;
    const FuseReport read = fuse_from_json(wrong, "planted", UnknownFields::refused);
    EXPECT_EQ(read.curve.back().timeline[1].spans.size(), 1u) << column;
  }
}

TEST(ExplorerTimeline, TheTraceHasAProcessForEachCallAndAThreadForEachLane) {
  const FuseReport report = planted();
  const nlohmann::ordered_json trace = chrome_trace(report, report.curve.back());
  std::vector<nlohmann::ordered_json> steps;
  for (const auto& event : trace.at("traceEvents"))
    if (event.value("cat", "") == "step") steps.push_back(event);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].at("pid"), 2);
  EXPECT_EQ(steps[0].at("tid"), 2);
  EXPECT_EQ(steps[0].at("ts"), 50.0);
  EXPECT_EQ(steps[0].at("dur"), 100.0);
  EXPECT_EQ(steps[0].at("args").at("module"), "body.0");
  EXPECT_NEAR(steps[0].at("args").at("share_of_peak_computed").get<double>(), 0.5, 1e-9);
}

TEST(ExplorerTimeline, LanesAreZoomedMovedAndAskedAndNothingIsCutOff) {
  const StoreFile file;
  FuseReport report = planted();
  report.curve.back().correctness.pass = true;
  Store::create(file.path()).add_fuse(fuse_document(report));
  for (const auto& [width, height, scale] :
       {std::tuple(1280, 800, 1.0), {900, 600, 1.0}, {900, 600, 1.5}, {2560, 1440, 1.5}}) {
    Settings settings;
    settings.width = width;
    settings.height = height;
    settings.scale = scale;
    settings.dark = scale > 1;
    const auto screen = screen_on(file.path(), settings);
    Driver driver(*screen);
    screen->explorer().show("fuse");
    driver.settle();
    driver.click("Timeline");
    driver.settle();
    screen->frame();
    for (const std::string& fault : layout_faults(screen->ui().items.last(), width, height))
      ADD_FAILURE() << width << "x" << height << " at " << scale << ": " << fault;
    if (height < 800) continue;
    const auto length = [&](const std::string& bar) {
      const ScreenItem* item = screen->ui().items.find(bar);
      return item == nullptr ? 0.0 : item->box.width;
    };
    const double before = length("bar wide::winograd_convolution");
    ASSERT_GT(before, 0);
    driver.wheel("bar wide::winograd_convolution", 2);
    EXPECT_NEAR(length("bar wide::winograd_convolution"), before / 0.64, 0.05 * before + 2);
    driver.click("Fit wide");
    driver.settle();
    EXPECT_NEAR(length("bar wide::winograd_convolution"), before * 9 / 4, 0.05 * before + 2);
    driver.click("Fit");
    driver.settle();
    EXPECT_NEAR(length("bar wide::winograd_convolution"), before, 2);
    driver.click("bar wide::winograd_convolution");
    driver.settle();
    EXPECT_TRUE(driver.sees("node 7 of one model's program, module body.0"));
    // Who moves the axis has not clicked a bar.
    driver.click("Fit wide");
    driver.settle();
    driver.drag("bar models 0-1", -40, 0);
    driver.settle();
    EXPECT_TRUE(driver.sees("node 7 of one model's program, module body.0"));
  }
}

}  // namespace
}  // namespace wide::timeline_test
