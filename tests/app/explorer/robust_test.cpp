// The window at any size, whatever is done to it and to its store.
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "app/explorer/layout.h"
#include "app/explorer/models/trials/run.h"
#include "data/plot/figure_draw.h"
#include "engine/machine/clock.h"
#include "tests/app/explorer/stored.h"
#include "tests/data/store/stored_run.h"

namespace wide::robust_test {
namespace {

namespace fs = std::filesystem;

class ExplorerRobust : public ::testing::Test {
 protected:
  void open(Settings settings = {}) {
    screen_ = screen_on(file_.path(), settings);
    driver_ = std::make_unique<Driver>(*screen_);
    driver_->settle();
  }
  void resize(int width, int height) {
    screen_->platform().resize(width, height);
    for (int i = 0; i < 3; ++i) screen_->frame();
  }
  const ScreenItem* find(const std::string& label) { return screen_->ui().items.find(label); }
  Explorer& explorer() { return screen_->explorer(); }
  StoreFile file_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Driver> driver_;
};

TEST(ExplorerLayout, SmallWindowsFoldOneSideAndForgetNothing) {
  Settings s;
  const WindowLayout large = layout_of(s, 2560, 1440);
  EXPECT_EQ(large.left, 300);
  EXPECT_EQ(large.right, 330);
  EXPECT_EQ(large.bottom, 240);
  const WindowLayout narrow = layout_of(s, 600, 400);
  EXPECT_FALSE(narrow.left_folded);
  EXPECT_TRUE(narrow.right_folded);
  EXPECT_GT(600 - narrow.left - narrow.right, 300);
  s.narrow_right = true;
  EXPECT_TRUE(layout_of(s, 600, 400).left_folded);
  EXPECT_FALSE(layout_of(s, 600, 400).right_folded);
  for (float width = 300; width < 3000; width += 61)
    for (float height = 200; height < 2000; height += 67) {
      const WindowLayout l = layout_of(s, width, height);
      EXPECT_GT(width - l.left - l.right - 2 * kSplitter, width < 560 ? 0 : 240) << width;
      EXPECT_LT(l.bottom, std::max(120.0f, 0.61f * (height - kHeaderHeight - kFooterHeight)));
    }
  s.left = 5000;
  s.left_folded = s.bottom_folded = true;
  EXPECT_EQ(layout_of(s, 1280, 800).bottom, kTabHeight);
  reset_layout(&s);
  EXPECT_EQ(s.left, 300);
  EXPECT_FALSE(s.left_folded || s.bottom_folded || s.narrow_right);
}

TEST_F(ExplorerRobust, NothingIsLostAtAnySize) {
  for (int i = 0; i < 2; ++i)
    store_sweep(file_.path(), {"linear", "conv2d", "ada_layer_norm_zero_single"}, {2, 8, 32}, "b");
  Store::create(file_.path()).add_fuse(fuse_document(shown_fusion()));
  store_run(file_.path(), 8, 13);
  struct Size {
    int width, height;
  };
  for (const Size size : {Size{900, 600}, {1280, 800}, {2560, 1440}})
    for (const double scale : {1.0, 1.5}) {
      Settings s;
      s.scale = scale;
      s.width = size.width;
      s.height = size.height;
      s.dark = scale > 1;
      open(s);
      explorer().library.select_row(1);
      for (const PanelInfo& info : panels()) {
        explorer().show(info.name);
        driver_->settle();
        screen_->frame();
        for (const std::string& fault :
             layout_faults(screen_->ui().items.last(), size.width, size.height))
          ADD_FAILURE() << size.width << " at " << scale << " " << info.name << ": " << fault;
      }
    }
}

/// Panels scroll sideways where they have to, which is not at the size of the first start.
TEST_F(ExplorerRobust, AtTheFirstStartNoPanelScrollsSideways) {
  for (int i = 0; i < 2; ++i) store_sweep(file_.path(), {"linear", "conv2d"}, {2, 8});
  Store::create(file_.path()).add_fuse(fuse_document(shown_fusion()));
  store_run(file_.path(), 8, 13);
  open();
  explorer().library.select_row(0);
  for (const PanelInfo& info : panels()) {
    explorer().show(info.name);
    driver_->settle();
    screen_->frame();
    for (const ImGuiWindow* w : GImGui->Windows) {
      const std::string name = w->Name;
      const bool panel = name.find("/inside_") != std::string::npos &&
                         std::count(name.begin(), name.end(), '/') == 2;
      if (w->WasActive && panel) {
        EXPECT_EQ(w->ScrollMax.x, 0) << info.name << " " << name;
      }
    }
  }
}

/// Every control of a panel is somewhere that scrolling reaches.
TEST_F(ExplorerRobust, ButtonsThatHaveNoRoomAreScrolledTo) {
  store_sweep(file_.path(), {"linear"}, {2, 8});
  Settings s;
  s.scale = 1.5;
  s.width = 900;
  s.height = 600;
  open(s);
  driver_->click("Run");
  driver_->click("Copy command");  // at the very end of the panel
  explorer().show("fuse");
  driver_->settle();
  driver_->click("share equal weights");
  driver_->click("Add");
  driver_->click("Cancel");
}

TEST_F(ExplorerRobust, ACrushedLayoutComesBack) {
  store_sweep(file_.path(), {"linear"}, {2, 8});
  open();
  const auto split = [&] { return find("splitter left")->box.x; };
  const double before = split();
  resize(900, 600);
  EXPECT_LT(split(), before);
  driver_->click("Sweeps");  // any click, with the button held down for a while
  resize(1280, 800);
  EXPECT_EQ(split(), before);
  driver_->drag("splitter left", 60, 0);
  EXPECT_NEAR(split(), before + 60, 2);
  driver_->click("fold left");
  EXPECT_EQ(find("splitter left"), nullptr);
  EXPECT_EQ(find("Sweeps"), nullptr);
  driver_->click("fold bottom");
  EXPECT_EQ(find("filter"), nullptr);
  driver_->click("Trials");
  EXPECT_NE(find("filter"), nullptr) << "a click on a tab opens what was folded";
  driver_->click("open left");
  EXPECT_NEAR(split(), before + 60, 2);
  driver_->click("fold right");
  driver_->press("Ctrl+P");
  driver_->type("reset lay");
  driver_->press("Enter");
  EXPECT_EQ(split(), before);
  EXPECT_NE(find("Selected trial"), nullptr);
}

TEST_F(ExplorerRobust, AWholeChordAndAWholeClickMayComeAtOnce) {
  store_sweep(file_.path(), {"linear"}, {2, 8});
  open();
  using Kind = InputEvent::Kind;
  const auto tell = [&](const InputEvent& e) { screen_->input.queue.push_back(e); };
  const auto key_at_once = [&](std::vector<int> keys) {
    for (const int k : keys) tell({Kind::key, k, true});
    std::reverse(keys.begin(), keys.end());
    for (const int k : keys) tell({Kind::key, k, false});
  };
  const auto frames = [&] {
    for (int i = 0; i < 12; ++i) screen_->frame();
    EXPECT_TRUE(screen_->input.queue.empty());
  };
  key_at_once({key::kControl, key::kP});
  frames();
  EXPECT_TRUE(explorer().palette.is_open());
  for (const char c : std::string("environ"))
    tell({Kind::character, 0, false, 0, 0, static_cast<char32_t>(c)});
  key_at_once({key::kEnter});
  frames();
  EXPECT_EQ(explorer().shown(Place::middle), "environment");
  const ScreenItem* tab = find("Overview");
  ASSERT_NE(tab, nullptr);
  tell({Kind::move, 0, false, static_cast<float>(tab->box.x + 5),
        static_cast<float>(tab->box.y + 5)});
  tell({Kind::button, 0, true});
  tell({Kind::button, 0, false});
  frames();
  EXPECT_EQ(explorer().shown(Place::middle), "matrix");
  // Two chords at once are two.
  const bool dark = explorer().settings.dark;
  key_at_once({key::kControl, key::kD});
  key_at_once({key::kControl, key::kD});
  frames();
  EXPECT_EQ(explorer().settings.dark, dark);
}

/// A null platform on a monitor with more dots an inch.
class ScaledPlatform : public NullPlatform {
 public:
  explicit ScaledPlatform(float scale) : NullPlatform(2560, 1600), scale_(scale) {}
  float monitor_scale() const override { return scale_; }

 private:
  float scale_;
};

TEST_F(ExplorerRobust, LargerAndSmallerBeginFromTheScaleInUse) {
  const auto scales = [&](float monitor, double begin, const std::string& keys, int times) {
    Settings settings;
    settings.scale = begin;
    screen_ =
        std::make_unique<Screen>(std::make_unique<ScaledPlatform>(monitor), file_.path(), settings);
    driver_ = std::make_unique<Driver>(*screen_);
    driver_->settle();
    std::vector<float> seen;
    for (int i = 0; i < times; ++i) {
      driver_->press(keys);
      seen.push_back(screen_->ui().scale());
    }
    return seen;
  };
  using Scales = std::vector<float>;
  EXPECT_EQ(scales(1.5f, 0, "Ctrl++", 3), (Scales{1.75f, 2, 2}));
  EXPECT_EQ(scales(1.5f, 0, "Ctrl+-", 2), (Scales{1.25f, 1}));
  EXPECT_EQ(scales(1, 0, "Ctrl++", 1), (Scales{1.25f}));
  EXPECT_EQ(scales(1, 0.75, "Ctrl+-", 1), (Scales{0.75f}));
  EXPECT_EQ(scales(3, 0, "Ctrl++", 1), (Scales{3})) << "there is no larger one";
  EXPECT_EQ(scales(3, 0, "Ctrl+-", 1), (Scales{2}));
  scales(1, 1.13, "", 0);
  EXPECT_EQ(find("scale")->value, "113 %") << "one that is not in the list is shown as it is";
  screen_->remember();
  EXPECT_EQ(explorer().settings.width, 2560);
  scales(2, 0, "", 0);
  screen_->remember();
  EXPECT_EQ(explorer().settings.width, 1280) << "in units of the monitor";
}

TEST_F(ExplorerRobust, TabShowsTheFocusAtOnce) {
  store_sweep(file_.path(), {"linear"}, {2, 8});
  open();
  driver_->press("Tab");
  EXPECT_FALSE(GImGui->NavDisableHighlight);
  EXPECT_NE(GImGui->NavId, 0u);
  const std::string first = screen_->ui().focused();
  EXPECT_NE(first, "");
  std::set<std::string> seen{first};
  for (int i = 0; i < 20; ++i) {
    driver_->press("Tab");
    EXPECT_FALSE(GImGui->NavDisableHighlight);
    seen.insert(screen_->ui().focused());
  }
  EXPECT_GE(seen.size(), 18u) << "every press goes on";
  for (int i = 0; i < 20; ++i) driver_->press("Shift+Tab");
  EXPECT_EQ(screen_->ui().focused(), first);
  // Inside a dialog it stays there, and the keyboard presses what has the focus.
  driver_->press("?");
  ASSERT_TRUE(explorer().keys.is_open());
  driver_->press("Tab");
  EXPECT_EQ(screen_->ui().focused(), "Close");
  driver_->press("Space");
  EXPECT_FALSE(explorer().keys.is_open());
}

TEST_F(ExplorerRobust, TheSaveDialogProposesItsNameEachTimeAndStaysOnABadPath) {
  store_sweep(file_.path(), {"linear"}, {2, 8});
  open();
  for (const char* name : {"one.csv", "two.csv"}) {
    driver_->click("Save CSV");
    ASSERT_NE(find("file name"), nullptr);
    EXPECT_EQ(find("file name")->value, "trials.csv");
    driver_->type(file_.path(name));  // takes the place of what was proposed
    driver_->press("Enter");
    driver_->settle();
    EXPECT_TRUE(fs::exists(file_.path(name))) << name;
  }
  driver_->click("Save CSV");
  const double save = find("Save")->box.y;
  driver_->type("/nonexistent/folder/out.csv");
  driver_->click("Save");
  driver_->settle();
  ASSERT_NE(find("Save"), nullptr) << "it stays open";
  EXPECT_EQ(find("Save")->box.y, save) << "buttons stay where they are";
  EXPECT_TRUE(driver_->sees("[file] folder: got no /nonexistent/folder"));
  driver_->press("Ctrl+A");
  driver_->type(file_.path("three.csv"));
  driver_->click("Save");
  driver_->settle();
  EXPECT_TRUE(fs::exists(file_.path("three.csv")));
}

TEST_F(ExplorerRobust, SavingAsksBeforeItReplacesAFileAndNeverReplacesTheStore) {
  store_sweep(file_.path(), {"linear"}, {2, 8});
  const auto text = [&] {
    std::string line;
    std::getline(std::ifstream(file_.path("old.csv")) >> std::ws, line);
    return line;
  };
  std::ofstream(file_.path("old.csv")) << "precious";
  std::ofstream(file_.path("other.csv")) << "precious";
  fs::create_symlink(file_.path(), file_.path("link.csv"));
  const auto size = fs::file_size(file_.path());
  open();
  for (const char* name : {"results.db", "link.csv"}) {
    driver_->click("Save CSV");
    driver_->press("Ctrl+A");
    driver_->type(file_.path(name));
    driver_->press("Enter");
    driver_->settle();
    EXPECT_TRUE(driver_->sees("which is the results store, expected another one")) << name;
    EXPECT_EQ(find("Replace"), nullptr) << "there is nothing to confirm";
    driver_->click("Cancel");
  }
  EXPECT_EQ(fs::file_size(file_.path()), size);
  EXPECT_THROW(explorer().take_picture(file_.path("link.csv"), {}), std::exception);

  driver_->click("Save CSV");
  driver_->press("Ctrl+A");
  driver_->type(file_.path("old.csv"));
  driver_->press("Enter");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("old.csv is there already: replace it?"));
  EXPECT_EQ(text(), "precious");
  // Another name is another question.
  driver_->press("Ctrl+A");
  driver_->type(file_.path("other.csv"));
  EXPECT_EQ(find("Replace"), nullptr);
  driver_->click("Save");
  EXPECT_TRUE(driver_->sees("other.csv is there already: replace it?"));
  driver_->press("Ctrl+A");
  driver_->type(file_.path("old.csv"));
  driver_->click("Save");
  driver_->click("Replace");
  driver_->settle();
  EXPECT_EQ(text().substr(0, 7), "target,");
}

TEST(ExplorerRunText, TheTimeLeftIsSaidWhereItIsKnown) {
  RunProgress p;
  p.total = 4;
  p.state = RunState::preparing;
  EXPECT_EQ(left_text(p), "time left not known yet");
  p.state = RunState::running;
  p.done = 1;
  p.left_s = 90;
  EXPECT_NE(left_text(p).find(" left"), std::string::npos);
  p.left_s = 0;  // the estimate has run out, the sweep has not
  EXPECT_EQ(left_text(p), "longer than estimated");
  p.done = 4;
  EXPECT_EQ(left_text(p), "finishing");
}

/// Runs frames for as long as a person would wait.
void watch(Screen& screen, double seconds, const std::function<bool()>& until) {
  const double end = now_s() + seconds;
  while (now_s() < end && !until()) {
    screen.frame();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST_F(ExplorerRobust, WhatAnotherProgramDoesToTheStoreIsNoticedAndSaid) {
  constexpr double kPatience_s = 10;  // a busy machine; a person sees it within 2
  store_sweep(file_.path(), {"linear"}, {2});
  open();
  driver_->click("filter");
  driver_->type("n<100");
  driver_->settle();
  explorer().library.select_row(0);
  driver_->settle();
  store_sweep(file_.path(), {"conv2d"}, {2, 8}, "others");
  watch(*screen_, kPatience_s, [&] { return driver_->sees("new sweep 2"); });
  EXPECT_TRUE(driver_->sees("another program wrote to the store: new sweep 2 · others"));
  EXPECT_EQ(explorer().library.sweeps().size(), 2u);
  EXPECT_EQ(explorer().library.trials().filter(), "n<100") << "the same store: nothing is lost";
  EXPECT_TRUE(explorer().library.point());

  // Another file under its name: what was chosen in the one before does not filter it.
  store_sweep(file_.path("next.db"), {"bmm"}, {4});
  for (const char* log : {"-wal", "-shm"}) fs::remove(file_.path() + log);
  fs::rename(file_.path("next.db"), file_.path());
  watch(*screen_, kPatience_s, [&] { return driver_->sees("is another file now"); });
  EXPECT_TRUE(driver_->sees("is another file now"));
  driver_->settle();
  EXPECT_EQ(explorer().library.trials().filter(), "");
  EXPECT_FALSE(explorer().library.point());
  EXPECT_NE(find("bmm N=4"), nullptr);

  fs::remove(file_.path());
  watch(*screen_, kPatience_s, [&] { return driver_->sees("is gone"); });
  driver_->settle();
  EXPECT_TRUE(driver_->sees("is gone"));
  EXPECT_TRUE(driver_->sees("Nothing has been measured yet"));
  for (const PanelInfo& info : panels()) {
    explorer().show(info.name);
    driver_->settle();
  }
  std::ofstream(file_.path()) << "no database at all, but long enough to look like one";
  watch(*screen_, kPatience_s, [&] { return driver_->sees("store: got"); });
  EXPECT_TRUE(driver_->sees("store: got"));
}

TEST_F(ExplorerRobust, ADeletedSweepIsShownNoLonger) {
  store_sweep(file_.path(), {"linear"}, {2});
  store_sweep(file_.path(), {"conv2d"}, {4});
  open();
  Library& library = explorer().library;
  EXPECT_EQ(library.sweep(), 2);
  EXPECT_NE(find("conv2d N=4"), nullptr);
  Store::create(file_.path()).remove(2);
  driver_->press("F5");
  driver_->settle();
  EXPECT_EQ(library.sweep(), 1);
  EXPECT_NE(find("linear N=2"), nullptr);
  library.select_row(0);
  driver_->settle();
  EXPECT_TRUE(library.detail());
  // The last one.
  Store::create(file_.path()).remove(1);
  driver_->press("F5");
  driver_->settle();
  EXPECT_EQ(library.sweep(), 0);
  EXPECT_EQ(library.table(), nullptr);
  EXPECT_FALSE(library.point());
  EXPECT_EQ(find("linear N=2"), nullptr);
  EXPECT_TRUE(driver_->sees("Nothing has been measured yet"));
  EXPECT_TRUE(driver_->sees("Nothing to compare yet"));
  driver_->press("F5");
  driver_->settle();
  EXPECT_FALSE(driver_->sees("internal error"));
  EXPECT_EQ(library.unreadable(), "");
}

TEST_F(ExplorerRobust, TheNumbersOfTheStoreFollowIt) {
  store_sweep(file_.path(), {"linear"}, {2});
  open();
  explorer().show("environment");
  driver_->settle();
  EXPECT_TRUE(driver_->sees(": 1 sweeps, "));
  store_sweep(file_.path(), {"conv2d"}, {2});
  explorer().library.refresh(true);
  driver_->settle();
  driver_->settle();
  EXPECT_TRUE(driver_->sees(": 2 sweeps, "));
}

/// Notes where labels of the axes along N are put.
class LabelCanvas : public Canvas {
 public:
  void line(Point, Point, const Stroke&) override {}
  void polyline(const std::vector<Point>&, const Stroke&) override {}
  void band(const std::vector<Point>&, const std::vector<Point>&, const Colour&) override {}
  void marker(Point, Shape2D, double, const Colour&) override {}
  void text(Point at, const std::string&, const TextStyle&) override {
    if (kind_.find("axis") != std::string::npos) labels.emplace_back(kind_, at);
  }
  double text_width(const std::string& text, const TextStyle& style) const override {
    return 0.6 * style.size * static_cast<double>(text.size());
  }
  void push_clip(const Box&) override {}
  void pop_clip() override {}
  void begin(const std::string& kind, const std::string&) override { kind_ = kind; }
  void end() override { kind_.clear(); }
  std::vector<std::pair<std::string, Point>> labels;

 private:
  std::string kind_;
};

TEST(ExplorerZoom, LabelsOfAxesStayBesideTheirPlotAtEveryZoom) {
  Figure figure;
  Curve curve;
  curve.name = "s";
  for (const double n : {1, 2, 4, 8, 16, 32, 64, 128}) {
    CurvePoint p;
    p.n = n;
    p.value = std::sqrt(n);
    p.error = 1e-7;
    curve.points.push_back(p);
  }
  figure.curves = {curve};
  figure.published = PublishedLine{"published (A100)", {{32, 173.7}}, false};
  const Limits all = limits_of(figure);
  for (const double low : {0.2, 1.0, 3.0, 20.0, 100.0})
    for (const double factor : {1.02, 1.5, 10.0, 1000.0}) {
      Limits zoomed = all;
      zoomed.n_low = low;
      zoomed.n_high = low * factor;
      zoomed.low = low / 7;
      zoomed.high = low * factor / 7;
      const FigureGeometry g = geometry_of(zoomed, 0, 0, 900, 300, true);
      LabelCanvas canvas;
      draw(canvas, figure, zoomed, g);
      for (const auto& [axis, at] : canvas.labels) {
        if (axis == "n axis") {
          const Box& plot = at.x < g.error.x - 20 ? g.value : g.error;
          EXPECT_GE(at.x, plot.x - 1) << low << " " << factor;
          EXPECT_LE(at.x, plot.right() + 1) << low << " " << factor;
        } else {
          EXPECT_GE(at.y, g.value.y - 1) << axis;
          EXPECT_LE(at.y, g.value.bottom() + 5) << axis;
        }
      }
    }
}

}  // namespace
}  // namespace wide::robust_test
