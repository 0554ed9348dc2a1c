// The explorer driven by clicks and keys, without a window.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "app/explorer/ui/draw_canvas.h"
#include "engine/error.h"
#include "tests/app/explorer/stored.h"

namespace wide::driver_test {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A panel that no other file knows of.
class TestPanel : public Panel {
 public:
  void draw(Explorer&, Ui& ui) override {
    if (ui.button("A button of the test panel")) ++clicks;
    if (sideways) {
      ImGui::SetCursorScreenPos(ImGui::GetItemRectMin());
      ui.button("lies over it");
    }
  }
  static inline int clicks = 0;
  static inline bool sideways = false;
};
const bool registered = add_panel({"test", "Test panel", "Shows that a panel is one file.",
                                   Place::left, 9, [] { return std::make_unique<TestPanel>(); }});

class ExplorerDriver : public ::testing::Test {
 protected:
  void open(const std::vector<std::string>& targets = {"linear", "conv2d"}, Settings s = {}) {
    if (!std::filesystem::exists(file_.path())) store_sweep(file_.path(), targets, {2, 8});
    screen_ = screen_on(file_.path(), s);
    driver_ = std::make_unique<Driver>(*screen_);
    driver_->settle();
  }
  StoreFile file_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(ExplorerDriver, APanelIsOneFile) {
  open();
  driver_->click("Test panel");
  driver_->click("A button of the test panel");
  EXPECT_EQ(TestPanel::clicks, 1);
}

TEST_F(ExplorerDriver, WhatLiesOverAnotherIsFound) {
  open();
  TestPanel::sideways = true;
  driver_->click("Test panel");
  const auto faults = layout_faults(screen_->ui().items.last(), 1280, 800);
  TestPanel::sideways = false;
  EXPECT_TRUE(std::any_of(faults.begin(), faults.end(), [](const std::string& line) {
    return line.find("lies over it") != std::string::npos;
  }));
}

TEST_F(ExplorerDriver, FromTheOverviewToAPointToItsSamples) {
  open();
  EXPECT_TRUE(driver_->sees("3.25×"));
  EXPECT_TRUE(driver_->sees("3× ✗"));
  EXPECT_TRUE(driver_->sees("No trial is selected"));
  driver_->click("conv2d N=8");
  driver_->settle();
  EXPECT_EQ(screen_->explorer().shown(Place::middle), "plot");
  EXPECT_EQ(screen_->explorer().library.groups()[screen_->explorer().library.group()].target,
            "conv2d");
  driver_->click("incorrect s3 N=8");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("why it is incorrect"));
  driver_->click("s2 * N=2");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("conv2d / s2"));
  EXPECT_TRUE(driver_->sees("25 samples"));
  // A curve that is hidden is gone, and comes back.
  driver_->click("legend s1");
  EXPECT_EQ(screen_->ui().items.find("s1 N=2"), nullptr);
  driver_->click("Show all");
  EXPECT_NE(screen_->ui().items.find("s1 N=2"), nullptr);
}

TEST_F(ExplorerDriver, ATooltipShowsTheSamplesOfWhatIsNotSelected) {
  open();
  driver_->click("Speedup");
  driver_->settle();
  EXPECT_FALSE(driver_->sees("25 samples"));
  driver_->hover("s2 * N=2");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("25 samples"));
  EXPECT_NE(screen_->ui().items.find("samples"), nullptr);
  EXPECT_FALSE(screen_->explorer().library.point());
}

TEST_F(ExplorerDriver, CrossesBelowTheSpeedupsAreTrialsToo) {
  open();
  driver_->click("Speedup");
  driver_->settle();
  driver_->click("cross s3 N=8");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("why it is incorrect"));
}

/// Points of one N alone stand side by side: each is where it is drawn.
TEST_F(ExplorerDriver, PointsOfOneNAreApart) {
  store_sweep(file_.path(), {"linear"}, {2});
  open();
  driver_->click("Speedup");
  driver_->settle();
  const ScreenItem *one = screen_->ui().items.find("s1 N=2"),
                   *two = screen_->ui().items.find("s2 * N=2");
  ASSERT_NE(one, nullptr);
  ASSERT_NE(two, nullptr);
  EXPECT_GT(std::abs(one->box.x - two->box.x), 10);
  driver_->click("s1 N=2");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("linear / s1"));
}

TEST_F(ExplorerDriver, ComparesSeveralSweepsWithOne) {
  for (const char* name : {"a", "b", "c"}) store_sweep(file_.path(), {"linear"}, {2, 8}, name);
  open();
  screen_->explorer().show("compare");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("5 trials in both"));
  driver_->click("changed only");
  driver_->click("Another");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("sweep 3: 5 trials in both"));
  EXPECT_TRUE(driver_->sees("sweep 1: 5 trials in both"));
  EXPECT_TRUE(driver_->sees("1.00×"));
  EXPECT_FALSE(screen_->ui().items.find("Another")->enabled);  // there is none left
  driver_->click("Fewer");
  driver_->settle();
  EXPECT_EQ(screen_->ui().items.find("after 2"), nullptr);
}

TEST_F(ExplorerDriver, ZoomKeepsThePointUnderTheMouseAndFits) {
  open();
  driver_->click("Speedup");
  driver_->settle();
  const Point before{screen_->ui().items.find("s1 N=2")->box.x,
                     screen_->ui().items.find("s1 N=2")->box.y};
  driver_->wheel("s1 N=2", 2);
  const ScreenItem* after = screen_->ui().items.find("s1 N=2");
  ASSERT_NE(after, nullptr);
  EXPECT_NEAR(after->box.x, before.x, 1);
  EXPECT_NEAR(after->box.y, before.y, 1);
  driver_->click("Fit");
  EXPECT_NEAR(screen_->ui().items.find("s1 N=8")->box.y, 0, 800);
  EXPECT_FALSE(screen_->ui().items.find("Fit")->enabled);
}

TEST_F(ExplorerDriver, FiltersSortsAndCopies) {
  open();
  driver_->click("filter");
  driver_->type("status:ok linear");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("5 of 20"));
  driver_->click("over best");
  driver_->settle();
  driver_->click("Copy CSV");
  driver_->settle();
  const std::string csv = screen_->ui().clipboard;
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "target,shape,n,strategy,status,speedup,verdict,loop,time_ns,error,chosen,mode,dtype,"
            "device,phase,machine,speedup_low,speedup_high,loop_low,loop_high,reason");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 6);
  EXPECT_NE(csv.find("linear,\"B16 D256\",2,s3,ok,3.25,FASTER,6.5"), std::string::npos);
  EXPECT_LT(csv.find(",3.25,"), csv.find(",1.25,"));  // the largest first
  driver_->click("Undo");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("20 of 20"));
  driver_->click("filter");
  driver_->type("spedup>1");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("[filter] column: got spedup"));
}

TEST_F(ExplorerDriver, SavesWhereTheFileBrowserSays) {
  open();
  driver_->click("Save CSV");
  driver_->press("Ctrl+A");
  driver_->type(file_.path("out.csv"));
  driver_->press("Enter");
  driver_->settle();
  EXPECT_EQ(contents(file_.path("out.csv")).substr(0, 7), "target,");
  driver_->click("Save CSV");
  driver_->press("Ctrl+A");
  driver_->type("/nonexistent/folder/out.csv");
  driver_->click("Save");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("[file] folder: got no /nonexistent/folder"));
  driver_->click("Cancel");
}

TEST_F(ExplorerDriver, SecondsThatAreNoNumberStartNothing) {
  open();
  screen_->explorer().run.take_preset("ci");
  driver_->settle();
  ASSERT_TRUE(screen_->ui().items.find("Start")->enabled);
  const auto type = [&](const std::string& field, const std::string& text) {
    driver_->click(field);
    driver_->press("Ctrl+A");
    driver_->type(text);
    driver_->settle();
    return screen_->ui().items.find("Start")->enabled;
  };
  EXPECT_FALSE(type("seconds a trial", "2,5"));
  EXPECT_TRUE(driver_->sees("[run] seconds a trial: got 2,5"));
  EXPECT_TRUE(type("seconds a trial", "2.5"));
  EXPECT_FALSE(type("seconds of silence", "5 min"));
  EXPECT_TRUE(driver_->sees("[run] seconds of silence: got 5 min"));
  EXPECT_TRUE(type("seconds of silence", "300"));
  EXPECT_EQ(screen_->explorer().run.choices().budget_s, 2.5);
  EXPECT_EQ(screen_->explorer().run.choices().timeout_s, 300);
}

TEST_F(ExplorerDriver, ChoosesManyCheckpointsBesideTheNetwork) {
  open();
  for (const char* name :
       {"net.pt2", "w1.safetensors", "w2.safetensors", "w10.safetensors", "notes.txt", "x.npy"})
    std::ofstream(file_.path(name)) << "x";
  screen_->explorer().show("fuse");
  driver_->click("network");
  driver_->type(file_.path("net.pt2"));
  driver_->settle();
  EXPECT_TRUE(driver_->sees("none: seeded copies"));
  driver_->click("Add");
  driver_->settle();
  // In the network's folder, the files that fit alone, by their numbers.
  const auto row = [&](const std::string& name) { return screen_->ui().items.find(name); };
  ASSERT_TRUE(row("w2.safetensors") && row("w10.safetensors"));
  EXPECT_LT(row("w2.safetensors")->box.y, row("w10.safetensors")->box.y);
  EXPECT_FALSE(row("notes.txt") || row("x.npy") || row("net.pt2"));
  EXPECT_TRUE(driver_->sees("other files not shown"));
  driver_->click("w1.safetensors");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("1 checkpoint"));
  driver_->click_with("Ctrl", "w10.safetensors");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("2 checkpoints"));
  driver_->click_with("Shift", "w1.safetensors");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("3 checkpoints"));
  driver_->click_with("Ctrl", "w2.safetensors");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("2 checkpoints"));
  driver_->click("Open");
  driver_->settle();
  EXPECT_FALSE(row("Open"));
  EXPECT_TRUE(driver_->sees("2 checkpoints"));
  driver_->click("Remove");
  // A pattern counts what it matches; what matches nothing is not taken.
  driver_->click("Add");
  driver_->type("w*.safetensors");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("3 checkpoints"));
  driver_->press("Enter");
  driver_->settle();
  EXPECT_FALSE(row("Open"));
  EXPECT_TRUE(driver_->sees("3 checkpoints"));
  driver_->click("Remove");
  driver_->click("Add");
  driver_->type("v*.safetensors");
  driver_->press("Enter");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("weights: got no file"));
  driver_->click("All");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("3 checkpoints"));
  driver_->click("Cancel");
  driver_->settle();
  EXPECT_TRUE(driver_->sees("none: seeded copies"));
}

TEST_F(ExplorerDriver, NoFolderIsReadOnTheWindowsThread) {
  constexpr int kFiles = 2000;
  open();
  std::ofstream(file_.path("net.pt2")) << "x";
  for (int i = 0; i < kFiles; ++i)
    std::ofstream(file_.path(fmt::format("w{}.safetensors", i))) << "x";
  screen_->explorer().show("fuse");
  driver_->click("network");
  driver_->type(file_.path("net.pt2"));
  driver_->settle();
  const auto rows = [&] {
    const auto& items = screen_->ui().items.last();
    return std::count_if(items.begin(), items.end(), [](const ScreenItem& item) {
      return item.kind == ItemKind::row && item.label.ends_with(".safetensors");
    });
  };
  {
    const OccupiedJobs occupied(screen_->explorer().jobs);
    driver_->click("Add");
    EXPECT_EQ(rows(), 0);
    EXPECT_TRUE(driver_->sees("reading the folder"));
  }
  driver_->settle();
  EXPECT_GT(rows(), 5);
  EXPECT_LT(rows(), 60) << "only what is in sight is drawn";
  {
    const OccupiedJobs occupied(screen_->explorer().jobs);
    driver_->click("All");
    EXPECT_FALSE(driver_->sees("2000 checkpoints"));
  }
  driver_->settle();
  EXPECT_TRUE(driver_->sees("2000 checkpoints"));
  {
    const OccupiedJobs occupied(screen_->explorer().jobs);
    driver_->click("Open");
    EXPECT_TRUE(driver_->sees("none: seeded copies"));
  }
  driver_->settle();
  EXPECT_EQ(screen_->ui().items.find("Open"), nullptr);
  EXPECT_TRUE(driver_->sees("2000 checkpoints"));
}

TEST_F(ExplorerDriver, PaletteAndKeys) {
  open();
  driver_->press("Ctrl+P");
  driver_->type("environ");
  driver_->press("Enter");
  EXPECT_EQ(screen_->explorer().shown(Place::middle), "environment");
  driver_->press("Ctrl+D");
  EXPECT_TRUE(screen_->explorer().settings.dark);
  driver_->press("?");
  EXPECT_TRUE(driver_->sees("Keys and mouse"));
  driver_->press("Escape");
  driver_->press("Ctrl+Q");
  EXPECT_TRUE(screen_->explorer().quit);
}

TEST_F(ExplorerDriver, AnEmptyStoreSaysWhatToDo) {
  screen_ = screen_on(file_.path("none.db"));
  driver_ = std::make_unique<Driver>(*screen_);
  driver_->settle();
  EXPECT_TRUE(driver_->sees("Nothing has been measured yet"));
  EXPECT_TRUE(driver_->sees("takes about "));
  for (const PanelInfo& panel : panels()) {
    screen_->explorer().show(panel.name);
    driver_->settle();
  }
  EXPECT_FALSE(std::filesystem::exists(file_.path("none.db")));  // looking writes nothing
}

TEST_F(ExplorerDriver, AnEmptyStoreIsDrawnBeforeTheQuickSweepIsPlanned) {
  screen_ = screen_on(file_.path("none.db"));
  driver_ = std::make_unique<Driver>(*screen_);
  screen_->explorer().show("sweeps");
  driver_->settle();
  const OccupiedJobs occupied(screen_->explorer().jobs);
  screen_->explorer().show("run");
  for (int i = 0; i < 4; ++i) screen_->frame();
  EXPECT_TRUE(driver_->sees("Run the quick sweep"));
  EXPECT_FALSE(driver_->sees("takes about ")) << "no thread could estimate it";
}

TEST_F(ExplorerDriver, ADamagedStoreIsALineAndNoEnd) {
  std::ofstream(file_.path("damaged.db")) << "no database at all, but long enough to look like one";
  screen_ = screen_on(file_.path("damaged.db"));
  driver_ = std::make_unique<Driver>(*screen_);
  driver_->settle();
  EXPECT_TRUE(driver_->sees("store: got"));
  for (const PanelInfo& info : panels()) {
    screen_->explorer().show(info.name);
    driver_->settle();
    EXPECT_FALSE(driver_->sees("reading the store")) << info.name;
  }
  EXPECT_TRUE(driver_->sees("The store cannot be read"));
}

TEST_F(ExplorerDriver, NothingIsCutOffOrOverlaps) {
  store_sweep(file_.path(), {"linear", "conv2d", "ada_layer_norm_zero_single"}, {2, 8, 32}, "b");
  store_sweep(file_.path(), {"linear", "conv2d", "ada_layer_norm_zero_single"}, {2, 8, 32}, "b");
  Store::create(file_.path()).add_fuse(fuse_document(shown_fusion()));
  for (const bool dark : {false, true})
    for (const double scale : {1.0, 2.0}) {
      Settings s;
      s.dark = dark;
      s.scale = scale;
      s.width = static_cast<int>(1280 * scale);
      s.height = static_cast<int>(800 * scale);
      open({}, s);
      screen_->explorer().library.select_row(1);
      driver_->settle();
      const auto look = [&](const std::string& at) {
        driver_->settle();
        screen_->frame();
        for (const std::string& fault :
             layout_faults(screen_->ui().items.last(), s.width, s.height))
          ADD_FAILURE() << at << (dark ? " dark " : " light ") << scale << ": " << fault;
      };
      for (const PanelInfo& panel : panels()) {
        screen_->explorer().show(panel.name);
        look(panel.name);
      }
      screen_->explorer().show("trials");  // the last panel of its place is another one
      screen_->explorer().show("fuse");
      driver_->settle();
      driver_->click("Along N");
      EXPECT_TRUE(driver_->sees("speedup over the best baseline"));
      look("along N");
      // What opens over the panels.
      struct Over {
        std::string panel, click, press, layer, close;
      };
      for (const Over& over : std::vector<Over>{{"plot", "", "Ctrl+P", "action", "Escape"},
                                                {"plot", "", "?", "Keys and mouse", "Escape"},
                                                {"plot", "Save CSV", "", "file name", ""},
                                                {"plot", "Export", "", "Plot as SVG", "Escape"},
                                                {"plot", "measure", "", "throughput", "Escape"},
                                                {"plot", "scale", "", "175 %", "Escape"},
                                                {"run", "preset", "", "published", "Escape"}}) {
        screen_->explorer().show(over.panel);
        driver_->settle();
        if (over.click.empty())
          driver_->press(over.press);
        else
          driver_->click(over.click);
        EXPECT_TRUE(driver_->sees(over.layer)) << over.layer;
        look(over.layer);
        if (over.close.empty())
          driver_->click("Cancel");
        else
          driver_->press(over.close);
        driver_->settle();
      }
    }
}

TEST(ExplorerCanvas, ManyPointsBecomeTwoAColumn) {
  std::vector<ImVec2> points;
  for (int i = 0; i < 100'000; ++i)
    points.push_back({static_cast<float>(i) / 200, static_cast<float>(i % 97)});
  const std::vector<ImVec2> few = decimate(points);
  EXPECT_LE(few.size(), 1010u);
  float low = 1e9f, high = 0;
  for (const ImVec2& p : few) {
    low = std::min(low, p.y);
    high = std::max(high, p.y);
  }
  EXPECT_EQ(low, 0);
  EXPECT_EQ(high, 96);
  const std::vector<ImVec2> some(points.begin(), points.begin() + 100);
  EXPECT_EQ(decimate(some).size(), 100u);
}

TEST(ExplorerFonts, NamesInLatinGreekAndCyrillicAreDrawn) {
  Ui ui;
  const Fonts fonts = load_fonts(1);
  ASSERT_EQ(fonts.name, "Inter");
  for (const ImFont* font : {fonts.body, fonts.bold, fonts.small, fonts.small_bold, fonts.title})
    for (const char16_t c : std::u16string(u"Łódźșạễ Ελλάδαώ Привет Їжакґ"))
      EXPECT_NE(font->FindGlyphNoFallback(c), nullptr) << static_cast<int>(c);
}

TEST(ExplorerFonts, WithoutAnyFontThereIsOne) {
  Ui ui;
  StoreFile empty;
  EXPECT_EQ(load_fonts(1, empty.path(".")).name, "built-in");
  EXPECT_EQ(load_fonts(1).name, "Inter");
}

}  // namespace
}  // namespace wide::driver_test
