// Every control says in plain words what it does, and long lists are searched.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/app/explorer/stored.h"
#include "tests/data/store/stored_run.h"

namespace wide::words_test {
namespace {

class ExplorerWords : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) store_sweep(file_.path(), {"linear", "conv2d"}, {2, 8});
    Store::create(file_.path()).add_fuse(fuse_document(shown_fusion()));
    store_run(file_.path(), 8, 13);
    screen_ = screen_on(file_.path());
    driver_ = std::make_unique<Driver>(*screen_);
    driver_->settle();
  }
  static bool is_control(ItemKind kind) {
    return kind != ItemKind::text && kind != ItemKind::area && kind != ItemKind::mark &&
           kind != ItemKind::row;
  }
  std::vector<std::string> silent() const {
    std::vector<std::string> found;
    for (const ScreenItem& item : screen_->ui().items.last())
      if (is_control(item.kind) && item.tip.empty() &&
          item.label.find("test panel") == std::string::npos)
        found.push_back(fmt::format("{} {} '{}'", item.inside, to_string(item.kind), item.label));
    return found;
  }
  StoreFile file_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(ExplorerWords, NoControlIsWithoutAWord) {
  using Names = std::vector<std::string>;
  driver_->click("filter");
  driver_->type("n>=2");
  screen_->explorer().library.select_row(0);
  for (const PanelInfo& info : panels()) {
    screen_->explorer().show(info.name);
    driver_->settle();
    EXPECT_EQ(silent(), Names{}) << info.name;
  }
  screen_->explorer().show("fuse");
  driver_->settle();
  driver_->click("Along N");
  EXPECT_EQ(silent(), Names{}) << "along N";
  for (const char* keys : {"Ctrl+P", "?"}) {
    driver_->press(keys);
    EXPECT_EQ(silent(), Names{}) << keys;
    driver_->press("Escape");
  }
  driver_->click("Save CSV");
  EXPECT_EQ(silent(), Names{}) << "file browser";
  driver_->click("Cancel");
  driver_->click("fold left");
  EXPECT_EQ(silent(), Names{}) << "folded";
}

TEST_F(ExplorerWords, EveryRowOfDetailsIsExplained) {
  screen_->explorer().library.select_row(0);
  driver_->settle();
  int rows = 0;
  for (const char* name : {"status", "over best", "over loop", "verdict", "error", "loop's own",
                           "models", "median", "quartiles", "first call", "with packing", "memory",
                           "arithmetic", "memory rate", "bound by", "CPU", "LibTorch", "git"})
    for (const ScreenItem& item : screen_->ui().items.last())
      if (item.inside == "point" && item.label == name) {
        ++rows;
        EXPECT_GT(item.tip.size(), 20u) << name;
      }
  EXPECT_GE(rows, 18);
}

TEST_F(ExplorerWords, ALongListIsSearched) {
  StoreFile many;
  for (int i = 0; i < 15; ++i) store_sweep(many.path(), {"linear"}, {2}, i == 3 ? "needle" : "hay");
  screen_ = screen_on(many.path());
  driver_ = std::make_unique<Driver>(*screen_);
  driver_->settle();
  driver_->click("sweep");
  driver_->type("needle");
  size_t rows = 0;
  std::string found;
  for (const ScreenItem& item : screen_->ui().items.last())
    if (item.kind == ItemKind::row && item.label.rfind("sweep ", 0) == 0 && item.layer > 0) {
      ++rows;
      found = item.label;
    }
  EXPECT_EQ(rows, 1u);
  driver_->click(found);
  driver_->settle();
  EXPECT_EQ(screen_->explorer().library.sweep(), 4);
  // So has the list on the left.
  screen_->explorer().show("sweeps");
  driver_->settle();
  driver_->click("find a sweep");
  driver_->type("needle");
  EXPECT_NE(screen_->ui().items.find("sweep 4"), nullptr);
  EXPECT_EQ(screen_->ui().items.find("sweep 5"), nullptr);
}

/// The vertices of a list and a row with this text, and the labels that are noted.
std::pair<int, std::vector<std::string>> drawn(const std::string& text, bool open) {
  Ui ui;
  Input input;
  int vertices = 0;
  std::vector<std::string> labels;
  for (int frame = 0; frame < 4; ++frame) {
    ui.begin_frame(input, 800, 600, 0.1f);
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize({800, 600});
    ImGui::Begin("window", nullptr, ImGuiWindowFlags_NoDecoration);
    int at = 0;
    ui.choice("run", &at, {text, "another"}, 600, "tip");
    if (open && frame == 0) {
      input.x = 300;
      input.y = static_cast<float>(ImGui::GetItemRectMin().y + 5);
    }
    input.down[0] = open && frame == 1;
    ui.row(text + "##id", false);
    ImGui::End();
    ui.end_frame();
    vertices = ImGui::GetDrawData()->TotalVtxCount;
    ImGui::GetIO().Fonts->SetTexID(nullptr);
  }
  for (const ScreenItem& item : ui.items.last()) labels.push_back(item.label);
  return {vertices, labels};
}

/// Two signs that ImGui takes for the begin of an id are drawn in what users name.
TEST(ExplorerNames, AreShownInFullWhateverTheyHold) {
  for (const bool open : {false, true}) {
    const auto [vertices, labels] = drawn("run 1 · ## night ### 2", open);
    const auto [same, others] = drawn("run 1 · @@ night @@@ 2", open);
    EXPECT_EQ(vertices, same) << "four a letter";
    EXPECT_EQ(std::count(labels.begin(), labels.end(), "run 1 · ## night ### 2"), open ? 2 : 1);
    EXPECT_EQ(labels.size(), others.size());
  }
}

}  // namespace
}  // namespace wide::words_test
