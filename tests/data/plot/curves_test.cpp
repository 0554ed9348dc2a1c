// Plots of very many lines.
#include <gtest/gtest.h>

#include <cmath>

#include "data/plot/curves.h"
#include "data/plot/density.h"

namespace wide::curves_test {
namespace {

std::vector<Point> wave(int points, double phase) {
  std::vector<Point> line;
  for (int i = 0; i < points; ++i)
    line.push_back({0.137 * i, 40 + 30 * std::sin(0.3 * i + phase) + (i % 13 == 5 ? 15 : 0)});
  return line;
}

TEST(CurveDensity, APeakInsideOneColumnIsSeen) {
  CurveDensity density(10, 20);
  std::vector<Point> line;
  for (int i = 0; i < 100; ++i) line.push_back({0.1 * i, i == 57 ? 3.5 : 15.5});
  density.extend(0, line, false);
  EXPECT_EQ(density.at(5, 3), 1);
  EXPECT_EQ(density.at(4, 3), 0);
  EXPECT_EQ(density.at(6, 3), 0);
  for (int x = 0; x < 10; ++x) EXPECT_EQ(density.at(x, 15), 1) << x;
}

TEST(CurveDensity, WhatGrowsIsWhatIsDrawnAtOnce) {
  for (const bool dashed : {false, true}) {
    CurveDensity grown(97, 83), whole(97, 83);
    for (size_t curve = 0; curve < 5; ++curve) {
      const std::vector<Point> line = wave(701, double(curve));
      for (const size_t end : {1, 2, 7, 100, 101, 400, 701})
        grown.extend(curve, {line.begin(), line.begin() + static_cast<ptrdiff_t>(end)}, dashed);
      whole.extend(curve, line, dashed);
    }
    int64_t sum = 0;
    for (int y = 0; y < 83; ++y)
      for (int x = 0; x < 97; ++x) {
        EXPECT_EQ(grown.at(x, y), whole.at(x, y)) << x << " " << y;
        sum += whole.at(x, y);
      }
    EXPECT_GT(sum, dashed ? 300 : 485);
  }
}

TEST(CurveDensity, WhatLiesOutsideIsLeftOut) {
  CurveDensity density(10, 10);
  density.extend(0, {{-50, 5.5}, {50, 5.5}}, false);
  density.extend(1, {{2.5, -1e300}, {3.5, 1e300}, {4.5, INFINITY}, {6.5, NAN}, {8.5, 1.5}}, false);
  // The second line crosses the top between columns 2 and 3.
  for (int x = 0; x < 10; ++x) EXPECT_EQ(density.at(x, 5), x == 3 ? 2 : 1) << x;
  EXPECT_EQ(density.at(8, 1), 1);
  EXPECT_EQ(density.at(6, 1), 0);
}

TEST(Curves, AxesGoThereAndBack) {
  CurveAxes axes{2, 50, 0.001, 10, true, true, {13, 7, 400, 200}};
  for (const Point value : {Point{2, 0.001}, {50, 10}, {10, 0.1}}) {
    const Point back = axes.value_at(axes.at(value));
    EXPECT_NEAR(back.x, value.x, 1e-9 * value.x);
    EXPECT_NEAR(back.y, value.y, 1e-9 * value.y);
  }
  EXPECT_NEAR(axes.at({10, 0.1}).x, 13 + 200, 1e-9);
  EXPECT_NEAR(axes.at({10, 0.1}).y, 7 + 100, 1e-9);
  EXPECT_TRUE(std::isnan(axes.at({10, 0}).y));
}

TEST(Curves, QuantilesAreNumPys) {
  // numpy.percentile([1, 2, 4, 8, 16], [25, 50, 75]) and of [1, 2, 4, 8]
  const std::vector<double> five{1, 2, 4, 8, 16}, four{1, 2, 4, 8};
  EXPECT_DOUBLE_EQ(quantile_of(five, 0.25), 2);
  EXPECT_DOUBLE_EQ(quantile_of(five, 0.5), 4);
  EXPECT_DOUBLE_EQ(quantile_of(five, 0.75), 8);
  EXPECT_DOUBLE_EQ(quantile_of(four, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile_of(four, 0.5), 3);
  EXPECT_DOUBLE_EQ(quantile_of(four, 0.75), 5);
  EXPECT_DOUBLE_EQ(quantile_of({7}, 0.75), 7);
}

}  // namespace
}  // namespace wide::curves_test
