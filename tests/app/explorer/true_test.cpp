// What the window says is so: cancelled is no failure, unclear is not shown as won, units are one.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <regex>
#include <thread>

#include "app/explorer/models/fusions/fuse.h"
#include "data/plot/figure_draw.h"
#include "data/plot/palette.h"
#include "data/plot/svg.h"
#include "data/reports/sweep/report.h"
#include "engine/machine/clock.h"
#include "tests/app/explorer/stored.h"

namespace wide::true_test {
namespace {

FuseReport fusion(double low, double value, double high) {
  FuseReport report = shown_fusion();
  report.curve.resize(1);
  report.curve[0].speedup = Speedup{Interval{4, 3, 5}, {value, low, high}, "threads"};
  return report;
}

class ExplorerTrue : public ::testing::Test {
 protected:
  void open(Settings settings = {}) {
    screen_ = screen_on(file_.path(), settings);
    driver_ = std::make_unique<Driver>(*screen_);
    driver_->settle();
  }
  /// The window, with one stored fusion in its panel.
  void open_fusion() {
    Store::create(file_.path()).add_fuse(fuse_document(fusion(1.9, 2, 2.1)));
    open();
    screen_->explorer().show("fuse");
    driver_->settle();
  }
  Library& library() { return screen_->explorer().library; }
  /// A sweep that was cancelled while its second case ran, or before any was done.
  void store_cancelled(bool any) {
    Store store = Store::create(file_.path());
    StoredCases plan = stored_plan("cancelled", {2, 8});
    const int64_t sweep = store.begin(plan);
    if (any) {
      Case done = shown_case("linear", 2), cut = shown_case("linear", 8);
      done.trials.resize(2);
      cut.trials.resize(2);
      for (Trial& t : cut.trials) {
        t = Trial{};
        t.strategy = "s1";
        t.status = Status::cancelled;
      }
      cut.trials[1].strategy = "s2";
      store.add_case(sweep, 0, done);
      store.add_case(sweep, 1, cut);
    }
    store.finish(sweep, "cancelled", {});
  }
  StoreFile file_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Driver> driver_;
};

TEST(ExplorerEndings, CancelledAndInterruptedAreNoFailure) {
  EXPECT_EQ(ending_of(Status::cancelled), Ending::not_finished);
  EXPECT_EQ(ending_of("interrupted"), Ending::not_finished);
  EXPECT_EQ(ending_of("timeout"), Ending::failed);
  EXPECT_EQ(ending_of("oom"), Ending::failed) << "as in the exit code of a sweep";
  EXPECT_EQ(ending_of("skipped"), Ending::left_out);
  EXPECT_EQ(ending_of("incorrect"), Ending::incorrect);
  EXPECT_EQ(ending_of("a word of tomorrow"), Ending::failed);
}

TEST_F(ExplorerTrue, ACancelledTrialIsNoFailure) {
  store_cancelled(true);
  open();
  const Overview& overview = library().overview();
  ASSERT_EQ(overview.lines.size(), 1u);
  EXPECT_EQ(overview.lines[0].failed, 0);
  EXPECT_EQ(overview.lines[0].cells.at(1).not_finished, 2);
  EXPECT_TRUE(driver_->sees("stopped"));
  EXPECT_TRUE(driver_->sees("✓ all"));
  screen_->explorer().show("sweeps");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("· 4 trials"));
  EXPECT_FALSE(driver_->sees("4 trials ·")) << "none is counted as failed";
}

TEST_F(ExplorerTrue, ACancelledSweepReplacesNoResult) {
  const int64_t kept = store_sweep(file_.path(), {"linear"}, {2});
  store_cancelled(false);
  open();
  EXPECT_EQ(library().sweep(), kept);
  EXPECT_TRUE(driver_->sees("3.25×"));
}

TEST_F(ExplorerTrue, AnUnclearSpeedupIsNotLarge) {
  Store::create(file_.path()).add_fuse(fuse_document(fusion(0.7, 1.1, 1.6)));
  Store::create(file_.path()).add_fuse(fuse_document(fusion(1.9, 2, 2.1)));
  EXPECT_EQ(verdict_of(fusion(0.7, 1.1, 1.6).curve[0]), "UNCLEAR");
  open();
  screen_->explorer().show("fuse");
  driver_->settle();
  const auto height_of = [&](const std::string& begin) -> double {
    for (const ScreenItem& item : screen_->ui().items.last())
      if (item.label.rfind(begin, 0) == 0) return item.box.height;
    ADD_FAILURE() << "nothing begins with " << begin;
    return 0;
  };
  const double clear = height_of("2× over threads");
  driver_->click("fusion");
  for (const ScreenItem& item : screen_->ui().items.last())
    if (item.kind == ItemKind::row && item.label.rfind("1 · ", 0) == 0) {
      driver_->click(std::string(item.label));
      break;
    }
  driver_->settle();
  EXPECT_LT(height_of("UNCLEAR: 1.1× over threads"), clear);
}

TEST_F(ExplorerTrue, AFailedFusionLeavesNoOldSuccessAndAStoppedOneIsNoFailure) {
  open_fusion();
  EXPECT_TRUE(driver_->sees("2× over threads"));
  driver_->click("network");
  driver_->type("no-such-network");
  driver_->click("Fuse");
  driver_->await("The fusion failed");
  EXPECT_FALSE(driver_->sees("2× over threads"));
  driver_->click("Show earlier fusions");
  driver_->settle();
  EXPECT_FALSE(driver_->sees("The fusion failed"));
  EXPECT_TRUE(driver_->sees("2× over threads"));
  driver_->click("network");
  driver_->press("Ctrl+A");
  driver_->type("lenet");
  driver_->click("Fuse");
  driver_->click("Stop");
  driver_->await("Stopped before its end");
  driver_->settle();
  EXPECT_FALSE(driver_->sees("The fusion failed"));
  EXPECT_TRUE(driver_->sees("2× over threads"));
}

TEST_F(ExplorerTrue, AfterAFusionNoOlderOneStandsInItsPlace) {
  open_fusion();
  EXPECT_TRUE(driver_->sees("2× over threads"));
  driver_->click("network");
  driver_->type("mlp");
  driver_->click("models");
  driver_->type("2");
  driver_->click("Fuse");
  driver_->await("fusing, checking and timing");
  {
    // The fusion ends, and the list of fusions cannot be read yet.
    const OccupiedJobs occupied(screen_->explorer().jobs);
    const double end = now_s() + 120;
    while (driver_->sees("fusing, checking and timing") && now_s() < end) {
      screen_->frame();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    for (int i = 0; i < 3; ++i) screen_->frame();
    EXPECT_FALSE(driver_->sees("fusing, checking and timing"));
    EXPECT_FALSE(driver_->sees("The fusion failed"));
    EXPECT_FALSE(driver_->sees("2× over threads")) << "the older one";
  }
  driver_->settle();
  ASSERT_NE(screen_->ui().items.find("fusion"), nullptr);
  EXPECT_EQ(screen_->ui().items.find("fusion")->value.rfind("2 · mlp", 0), 0u)
      << screen_->ui().items.find("fusion")->value;
}

TEST_F(ExplorerTrue, FailedProgramsAndExportsHideNoFusionForGood) {
  open_fusion();
  driver_->click("network");
  driver_->type("no-such-network");
  for (const bool exporting : {false, true}) {
    driver_->click(exporting ? "Export" : "Programs");
    if (exporting) {
      driver_->press("Ctrl+A");
      driver_->type(file_.path("wide.pt2"));
      driver_->press("Enter");
    }
    driver_->await(exporting ? "The export failed" : "The programs could not be shown");
    EXPECT_FALSE(driver_->sees("2× over threads"));
    driver_->click("Show earlier fusions");
    driver_->settle();
    EXPECT_TRUE(driver_->sees("2× over threads"));
  }
}

TEST(ExplorerFuseTrue, InputsAreRandomOrAFile) {
  FuseChoices c;
  c.model = "net.pt2";
  c.n = "4";
  c.inputs = "/a folder/x.safetensors";
  const std::vector<std::string> asked = fuse_arguments(c, "");
  const std::vector<std::string> expected = {"fuse",     "net.pt2", "-n",       "4",
                                             "--inputs", c.inputs,  "--explain"};
  EXPECT_EQ(asked, expected);
  c.inputs = "x=2x3:f32 ids=2:i64[0,9)";
  EXPECT_EQ(trace_arguments(c),
            (std::vector<std::string>{"trace", "net.pt2", "--wide", "4", "--input", "x=2x3:f32",
                                      "--input", "ids=2:i64[0,9)", "--steps"}));
}

/// The reason is that of a strategy that was refused, for who had asked for it. Where another one
/// was taken the operator is not computed one by one, and there is nothing to try.
TEST(ExplorerFuseTrue, WhyAnotherWayWasTakenDoesNotContradictItself) {
  EXPECT_EQ(fallback_text("aten::convolution",
                          "[conv2d/winograd] kernel: got 7 x 7, expected 3 x 3; try direct"),
            "aten::convolution does without conv2d/winograd: kernel: got 7 x 7, expected 3 x 3");
  EXPECT_EQ(fallback_text("aten::sort", "no batching rule"),
            "aten::sort is computed one by one: no batching rule");
}

TEST(ExplorerWhy, MoreThanTheArithmeticPeakSaysWhatIsComputed) {
  Timing timing;
  timing.flops_share = 2.48;
  EXPECT_NE(arithmetic_text(timing).find("248 %"), std::string::npos);
  EXPECT_NE(arithmetic_text(timing).find("at most 40 % of the operations"), std::string::npos);
  timing.flops_share = 0.61;
  EXPECT_EQ(arithmetic_text(timing), "61 % of this machine's arithmetic peak");
}

TEST(ExplorerWhy, WhatKernelsComputeStandsBesideWhatTheDefinitionCounts) {
  Timing timing;
  timing.flops_share = 2.48;
  timing.computed_share = 0.744;
  const std::string text = arithmetic_text(timing);
  EXPECT_NE(text.find("248 % of this machine's arithmetic peak by the operations"), text.npos);
  EXPECT_NE(text.find("compute 30 % as many, which is 74 % of the peak"), text.npos) << text;
}

TEST(ExplorerPublished, FiguresOfAnotherDeviceDoNotStretchTheAxes) {
  Figure figure;
  Curve curve;
  curve.name = "s";
  for (const double n : {2.0, 8.0}) {
    CurvePoint p;
    p.n = n;
    p.value = 1.5;
    p.error = 1e-7;
    curve.points.push_back(p);
  }
  figure.curves = {curve};
  const Limits alone = limits_of(figure);
  figure.published = PublishedLine{"published (A100)", {{32, 173.7}}, false};
  const Limits beside = limits_of(figure);
  EXPECT_EQ(beside.high, alone.high);
  EXPECT_EQ(beside.n_high, alone.n_high);
  SvgCanvas canvas(900, 600);
  draw(canvas, figure, beside, 0, 0, 900);
  EXPECT_NE(canvas.document("t").find("174× at N=32, beyond these axes"), std::string::npos);
  figure.published->comparable = true;
  EXPECT_GT(limits_of(figure).high, 173);
  EXPECT_GT(limits_of(figure).n_high, 32);
}

/// In the Oklab colour space, where distances are about as people see them.
std::array<double, 3> oklab(uint32_t rgb) {
  const auto linear = [&](int shift) {
    const double c = (rgb >> shift & 0xFF) / 255.0;
    return c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  };
  const double r = linear(16), g = linear(8), b = linear(0);
  const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

TEST(ExplorerPalette, TwelveStrategiesHaveTwelveHues) {
  ASSERT_GE(kSeriesColours, 12);
  for (const Palette& palette : {kLight, kDark}) {
    std::vector<uint32_t> all(palette.series.begin(), palette.series.end());
    all.push_back(palette.paper);
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t k = 0; k < i; ++k) {
        const auto a = oklab(all[i]), b = oklab(all[k]);
        EXPECT_GT(std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]), 0.09)
            << std::hex << all[i] << " " << all[k];
      }
  }
}

TEST_F(ExplorerTrue, TimesAreInMicrosecondsAndRatiosHaveTheirSign) {
  store_sweep(file_.path(), {"linear", "conv2d"}, {2, 8});
  store_sweep(file_.path(), {"linear", "conv2d"}, {2, 8});
  Store::create(file_.path()).add_fuse(fuse_document(shown_fusion()));
  open();
  library().select_row(0);
  driver_->settle();
  const std::regex plain("[0-9] us\\b|[0-9]x( |$|,|\\[)");
  for (const PanelInfo& info : panels()) {
    screen_->explorer().show(info.name);
    driver_->settle();
    for (const ScreenItem& item : screen_->ui().items.last())
      for (const std::string& text : {item.label, item.value, item.tip})
        EXPECT_FALSE(std::regex_search(text, plain)) << info.name << ": " << text;
  }
  for (const Curve& curve : library().figure()->curves)
    for (const CurvePoint& p : curve.points)
      EXPECT_FALSE(std::regex_search(p.about, plain)) << p.about;
}

TEST_F(ExplorerTrue, AFilterIsOfTheStoreWhereItWasTyped) {
  store_sweep(file_.path(), {"linear"}, {2});
  Settings settings;
  settings.filter = "n>4000";
  settings.store = file_.path();
  open(settings);
  EXPECT_EQ(library().trials().filter(), "n>4000");
  settings.store = file_.path("another.db");
  open(settings);
  EXPECT_EQ(library().trials().filter(), "");
  EXPECT_EQ(screen_->explorer().settings.store, file_.path());
}

}  // namespace
}  // namespace wide::true_test
