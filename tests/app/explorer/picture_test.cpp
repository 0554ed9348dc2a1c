// What is seen: pixels of a picture against the numbers of the store.
#include <gtest/gtest.h>

#include <cmath>

#include "app/explorer/window/raster.h"
#include "data/plot/palette.h"
#include "tests/app/explorer/opengl_platform.h"
#include "tests/app/explorer/stored.h"

namespace wide::picture_test {
namespace {

class ExplorerPicture : public ::testing::Test {
 protected:
  /// Speedups of strategy k: k + N / 8. The third is incorrect from N=8 on.
  void SetUp() override {
    store_sweep(file_.path(), {"linear"}, {2, 8, 32});
    Settings settings;
    settings.view = "plot";
    screen_ =
        std::make_unique<Screen>(opengl_platform(1280, 800), file_.path(), std::move(settings));
    driver_ = std::make_unique<Driver>(*screen_);
    driver_->settle();
    screen_->frame();
    pixels_ = screen_->platform().pixels();
    ASSERT_EQ(pixels_.width, 1280);
  }

  uint32_t at(double x, double y) const {
    const auto i =
        static_cast<size_t>(3 * (static_cast<int>(y) * pixels_.width + static_cast<int>(x)));
    return uint32_t{pixels_.rgb[i]} << 16 | uint32_t{pixels_.rgb[i + 1]} << 8 | pixels_.rgb[i + 2];
  }
  /// How many pixels of a square of `reach` around are of the curve's colour.
  int coloured(Point p, const std::string& strategy, int reach) const {
    const uint32_t wanted = colour_of(strategy);
    int count = 0;
    for (int y = -reach; y <= reach; ++y)
      for (int x = -reach; x <= reach; ++x) count += at(p.x + x, p.y + y) == wanted;
    return count;
  }
  uint32_t colour_of(const std::string& strategy) const {
    for (const Curve& c : screen_->explorer().library.figure()->curves)
      if (c.strategy == strategy) return rgb(screen_->ui().theme().plot, series_colour(c.style));
    ADD_FAILURE() << "no curve of " << strategy;
    return 0;
  }
  Point middle(const std::string& label) const {
    const ScreenItem* item = screen_->ui().items.find(label);
    EXPECT_NE(item, nullptr) << label;
    return item ? Point{item->box.x + item->box.width / 2, item->box.y + item->box.height / 2}
                : Point{};
  }

  StoreFile file_;
  std::unique_ptr<Screen> screen_;
  std::unique_ptr<Driver> driver_;
  Pixels pixels_;
};

TEST_F(ExplorerPicture, CurvesLieWhereTheNumbersSay) {
  // Two points tell where the logarithmic axes lie; all others have to follow from their values.
  const Point low = middle("s1 N=2"), high = middle("s1 N=32");
  const double low_value = 1 + 2.0 / 8, high_value = 1 + 32.0 / 8;
  const auto place = [&](double n, double value) {
    const double x = std::log(n / 2) / std::log(32.0 / 2);
    const double y = std::log(value / low_value) / std::log(high_value / low_value);
    return Point{low.x + x * (high.x - low.x), low.y + y * (high.y - low.y)};
  };
  for (int k = 1; k <= 3; ++k)
    for (const int n : {2, 8, 32}) {
      const std::string name = "s" + std::to_string(k);
      const Point there = place(n, k + n / 8.0);
      const bool incorrect = k == 3 && n >= 8;
      EXPECT_EQ(coloured(there, name, 3) > 6, !incorrect) << name << " N=" << n;
      // Neither above nor below, where only another value would be.
      EXPECT_LT(coloured({there.x, there.y - 16}, name, 3), 3) << name << " N=" << n;
      EXPECT_LT(coloured({there.x, there.y + 16}, name, 3), 3) << name << " N=" << n;
    }
}

TEST_F(ExplorerPicture, ACrossStandsWhereATrialIsIncorrect) {
  for (const int n : {8, 32}) {
    for (const std::string& label :
         {"cross s3 N=" + std::to_string(n), "incorrect s3 N=" + std::to_string(n)}) {
      const Point p = middle(label);
      EXPECT_GT(coloured(p, "s3", 1), 3) << label;
      for (const double x : {-2.0, 2.0})  // along its arms, not between them
        for (const double y : {-2.0, 2.0})
          EXPECT_GT(coloured({p.x + x, p.y + y}, "s3", 1), 0) << label;
      EXPECT_EQ(coloured({p.x, p.y - 5}, "s3", 0), 0) << label;
      EXPECT_EQ(coloured({p.x, p.y + 5}, "s3", 0), 0) << label;
    }
    EXPECT_NEAR(middle("cross s3 N=" + std::to_string(n)).x, middle("s1 N=" + std::to_string(n)).x,
                1);
  }
  EXPECT_EQ(screen_->ui().items.find("cross s3 N=2"), nullptr);
  EXPECT_EQ(screen_->ui().items.find("cross s1 N=8"), nullptr);
}

/// OpenGL and what needs none agree, all of the window: text, lines, areas seen through each other.
TEST_F(ExplorerPicture, WithoutOpenGlItIsTheSame) {
  const auto picture = picture_platform(1280, 800);
  picture->draw(ImGui::GetDrawData(), 0, colour4(screen_->ui().theme().window));
  const Pixels own = picture->pixels();
  ASSERT_EQ(own.width, pixels_.width);
  ASSERT_EQ(own.height, pixels_.height);
  size_t apart = 0;
  double sum = 0;
  for (size_t i = 0; i < own.rgb.size(); ++i) {
    const int difference = std::abs(int{own.rgb[i]} - int{pixels_.rgb[i]});
    apart += difference > 24;
    sum += difference;
  }
  EXPECT_LT(double(apart), 1e-3 * double(own.rgb.size()));
  EXPECT_LT(sum, 0.1 * double(own.rgb.size()));
}

TEST_F(ExplorerPicture, WithoutADisplayThereAreNoErrorsOfOpenGl) {
  for (const PanelInfo& panel : panels()) {
    screen_->explorer().show(panel.name);
    driver_->settle();
  }
  EXPECT_EQ(screen_->platform().gl_errors(), 0);
}

}  // namespace
}  // namespace wide::picture_test
