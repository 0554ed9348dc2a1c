#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "data/escape.h"
#include "data/plot/canvas_text.h"
#include "data/plot/figure_draw.h"
#include "data/plot/scale.h"
#include "data/plot/svg.h"

namespace wide::plot_test {
namespace {

std::string labels(const std::vector<Tick>& ticks) {
  std::string out;
  for (const Tick& tick : ticks) out += (out.empty() ? "" : " ") + tick.label;
  return out;
}

TEST(Plot, TicksAreRoundAndStandApart) {
  const auto ratio_ticks = [](const LogScale& scale, double gap_px) {
    return value_ticks(scale, gap_px, [](double value) { return short_number(value) + "×"; });
  };
  EXPECT_EQ(labels(ratio_ticks({0.5, 20, 230, 0}, 22)), "0.5× 1× 2× 5× 10× 20×");
  EXPECT_EQ(labels(ratio_ticks({0.9, 2.1, 230, 0}, 22)), "1× 1.25× 1.5× 2×");
  EXPECT_EQ(labels(decade_ticks({1e-8, 1e-2, 230, 0}, 22)), "1e-2 1e-3 1e-4 1e-5 1e-6 1e-7 1e-8");
  for (const double high : {1.01, 1.3, 3.0, 40.0, 1e3, 1e9, 1e60, 1e300}) {
    const LogScale scale{0.7, high, 230, 0};
    for (const auto& ticks : {ratio_ticks(scale, 22), decade_ticks(scale, 22)})
      for (size_t i = 1; i < ticks.size(); ++i)
        EXPECT_GE(std::abs(scale.at(ticks[i].value) - scale.at(ticks[i - 1].value)), 21.9) << high;
  }
}

TEST(Plot, EveryNHasATickAndLabelsDoNotOverlap) {
  const std::vector<double> ns = {2, 4, 6, 8, 10, 12, 16, 20, 32, 64, 100};
  EXPECT_EQ(labels(n_ticks({2, 100, 0, 340}, ns, 6)), "2 4 6 8 10  16 20 32 64 100");
  EXPECT_EQ(labels(n_ticks({2, 100, 0, 60}, ns, 6)), "2   8       100");
  EXPECT_EQ(n_ticks({2, 100, 0, 60}, ns, 6).size(), ns.size());
  EXPECT_EQ(labels(n_ticks({1, 1e18, 0, 300}, {1, 20000, 3e6, 1e18}, 6)), "1 20k 3M 1e+18");
}

Figure figure(size_t curves, const std::vector<std::string>& groups) {
  Figure f;
  f.title = "target";
  for (const std::string& group : groups)
    for (size_t i = 0; i < curves; ++i) {
      Curve c;
      c.name = "s" + std::to_string(i);
      c.group = group;
      CurvePoint p;
      p.n = 4;
      p.value = 1 + static_cast<double>(i);
      p.error = 1e-7;
      c.points = {p};
      f.curves.push_back(c);
    }
  f.notes = {"a note"};
  return f;
}

TEST(Plot, MoreThanADozenCurvesBecomeSmallMultiples) {
  EXPECT_EQ(split(figure(12, {"default"})).size(), 1u);
  const std::vector<Figure> modes = split(figure(7, {"eager", "default"}));
  ASSERT_EQ(modes.size(), 2u);
  EXPECT_EQ(modes[0].curves.size(), 7u);
  EXPECT_EQ(modes[1].curves[3].style, modes[0].curves[3].style);
  EXPECT_TRUE(modes[0].notes.empty());
  EXPECT_EQ(modes[1].notes.size(), 1u);
  const std::vector<Figure> many = split(figure(30, {"default"}));
  ASSERT_EQ(many.size(), 3u);
  EXPECT_EQ(many[2].curves.size(), 6u);
}

TEST(Plot, CurvesDifferInColourShapeAndDash) {
  std::set<std::tuple<int, Shape2D, Dash>> looks;
  for (int i = 0; i < 12; ++i) {
    looks.insert({i % kSeriesColours, series_shape(i), series_dash(i)});
    EXPECT_NE(series_shape(i), series_shape(i + 1));
    EXPECT_NE(series_dash(i), series_dash(i + 1));
    EXPECT_NE(i % kSeriesColours, (i + 1) % kSeriesColours);
  }
  EXPECT_EQ(looks.size(), 12u);
}

TEST(Plot, WhatIsNotANumberIsDrawnSomewhereSane) {
  Figure f = figure(3, {"default"});
  f.curves[0].points[0].error = std::nan("");
  f.curves[1].points[0].error = 0;
  f.curves[2].points[0].value.reset();
  f.curves[2].points[0].incorrect = true;
  f.allowances = {{4, std::nan(""), 0}};
  SvgCanvas canvas(800, 600);
  EXPECT_GT(draw(canvas, f, limits_of(f), 0, 0, 800), 300);
  const std::string svg = canvas.document("<title>");
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_NE(svg.find("&lt;title&gt;"), std::string::npos);
  Figure nothing;
  EXPECT_GT(draw(canvas, nothing, limits_of(nothing), 0, 0, 800), 300);
}

/// The names of the curves whose bands are drawn.
std::set<std::string> bands(const Figure& f, const FigureView& view) {
  SvgCanvas canvas(800, 600);
  const Limits limits = limits_of(f);
  draw(canvas, f, limits, geometry_of(limits, 0, 0, 800), view);
  const std::string svg = canvas.document("bands");
  std::set<std::string> found;
  for (const Curve& curve : f.curves)
    if (svg.find("band " + curve.name) != std::string::npos) found.insert(curve.name);
  return found;
}

TEST(Plot, OneCurveHasItsBandTheOthersWhenTheyAreLookedAt) {
  Figure f = figure(4, {"default"});
  for (Curve& curve : f.curves) {
    curve.points[0].low = 0.1;
    curve.points[0].high = 10;
    curve.points.push_back(curve.points[0]);
    curve.points[1].n = 8;
  }
  using Names = std::set<std::string>;
  EXPECT_EQ(bands(f, {}), Names{});  // nothing says which
  f.curves[1].points[0].chosen = true;
  EXPECT_EQ(bands(f, {}), Names{"s1"});
  f.curves[2].points[1].chosen = true;  // at a larger N
  EXPECT_EQ(bands(f, {}), Names{"s2"});
  FigureView view;
  view.selected = "s0";
  EXPECT_EQ(bands(f, view), Names{"s0"});
  view.lit = "s3";
  EXPECT_EQ(bands(f, view), Names{"s3"});
  view = {};
  view.hidden = {"s2"};
  EXPECT_EQ(bands(f, view), Names{"s1"});
  view.hidden = {"s1", "s2", "s3"};
  EXPECT_EQ(bands(f, view), Names{"s0"});  // alone
}

TEST(Plot, TextIsWrappedAndShortenedBetweenCharacters) {
  const SvgCanvas canvas(800, 600);
  const TextStyle style;
  const std::string text = "several words üüüüüüüüüüüüüüüüüüüüüüüüüüüü end";
  std::string all;
  for (const std::string& line : wrap(canvas, text, style, 80)) {
    EXPECT_LE(canvas.text_width(line, style), 80);
    EXPECT_EQ(clean_text(line), line);  // no half of a character
    for (const char c : line)
      if (c != ' ') all += c;
  }
  EXPECT_EQ(all, "severalwordsüüüüüüüüüüüüüüüüüüüüüüüüüüüüend");
  const std::string part = shorten(canvas, text, style, 100);
  EXPECT_LE(canvas.text_width(part, style), 100);
  EXPECT_EQ(clean_text(part), part);
  EXPECT_EQ(shorten(canvas, "short", style, 100), "short");
}

TEST(Escape, NamesCannotBreakOut) {
  EXPECT_EQ(xml_escape("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(clean_text("a\x01\xFF\nb\xC3"), "a\xEF\xBF\xBD\xEF\xBF\xBD b\xEF\xBF\xBD");
  EXPECT_EQ(clean_text("ü×\xF0\x9F\x98\x80"), "ü×\xF0\x9F\x98\x80");
  // Overlong, surrogate, beyond Unicode, and U+FFFF, which XML has not.
  for (const char* bad : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xEF\xBF\xBF"})
    EXPECT_EQ(clean_text(bad).substr(0, 3), "\xEF\xBF\xBD");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("say \"x\""), "\"say \"\"x\"\"\"");
  EXPECT_EQ(csv_cell("=1+1"), "'=1+1");
  EXPECT_EQ(csv_cell("plain"), "plain");
  EXPECT_EQ(csv_number(-std::nan("")), "nan");
  EXPECT_EQ(csv_number(-std::nanf("")), "nan");
  EXPECT_EQ(csv_number(0.1f), "0.1");
  EXPECT_EQ(csv_number(1.0 / 3), "0.3333333333333333");
  for (const char* number : {"-0.3", "-7", "-1e-05", "-inf", "-nan"})
    EXPECT_EQ(csv_cell(number), number);
  for (const char* formula : {"-1+1", "+A1", "+7", "@x", "-", "-2-cmd"})
    EXPECT_EQ(csv_cell(formula), "'" + std::string(formula));
  EXPECT_EQ(markdown_escape("a|b\n`c` <d>"), "a\\|b \\`c\\` \\<d\\>");
}

}  // namespace
}  // namespace wide::plot_test
