// Rows of the suites: cases that differ in anything but their phase never share one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "data/preset.h"
#include "data/reports/suites/suites.h"
#include "data/text.h"

namespace wide::suite_rows_test {
namespace {

Case a_case(const std::string& mode, const std::string& device, double ms) {
  Case c;
  c.target = find_preset("components").targets.front();
  c.device = device;
  c.dtype = "f32";
  c.mode = mode;
  c.n = 1;
  const auto timing = [ms](const std::string& name, const char* kind, double factor) {
    Timing t;
    t.name = name;
    t.kind = kind;
    t.samples_ns = {ms * factor * 1e6, ms * factor * 1e6};
    summarise(t);
    return t;
  };
  c.baselines.push_back(timing("loop", "baseline", 2));
  Trial& t = c.trials.emplace_back();
  t.strategy = "wide";
  t.timing = timing("wide", "candidate", 1);
  return c;
}

TEST(SuiteRows, ModesAndDevicesHaveFilesOfTheirOwn) {
  SweepReport report;
  const std::pair<std::string, std::string> kinds[] = {
      {"default", "cpu"}, {"eager", "cpu"}, {"default", "cuda:0"}, {"max-autotune", "cuda:1"}};
  for (size_t i = 0; i < std::size(kinds); ++i)
    report.cases.push_back(a_case(kinds[i].first, kinds[i].second, double(i) + 1));
  std::map<std::string, std::string> files;
  for (const auto& file : suite_pages(report).files) files[file.name] = file.text;
  const char* expected[] = {"components.csv", "components-eager.csv", "components-cuda0.csv",
                            "components-max-autotune-cuda1.csv"};
  for (size_t i = 0; i < std::size(kinds); ++i) {
    ASSERT_TRUE(files.count(expected[i])) << expected[i];
    const std::string& text = files[expected[i]];
    EXPECT_NE(text.find(fmt::format("compiled,{}.0000", i + 1)), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("naive,{}.0000", 2 * i + 2)), std::string::npos) << text;
  }
  EXPECT_EQ(files.size(), 5u) << "and suite.md";
}

TEST(SuiteRows, TheAttentionGridHasNoNegativeTimesAndTheLargestMemory) {
  SweepReport report;
  for (const char* phase : {"forward", "backward"}) {
    const bool forward = std::string(phase) == "forward";
    // Noise: both directions of vanilla, 2 ms, are faster than the forward one, 3 ms.
    Case c = a_case("default", "cpu", 1);
    c.target = find_preset("attention-grid").targets.front();
    c.shape = "B8 T16 D8 causal0";
    c.phase = phase;
    if (forward) c.baselines[0].samples_ns = {3e6, 3e6};
    if (!forward) c.trials[0].timing.samples_ns = {4e6, 4e6};
    c.baselines[0].peak_bytes = forward ? 6 << 20 : 2 << 20;
    c.trials[0].timing.peak_bytes = forward ? 1 << 20 : 5 << 20;
    report.cases.push_back(c);
  }
  std::map<std::string, std::string> files;
  for (const auto& file : suite_pages(report).files) files[file.name] = file.text;
  const std::string& csv = files["attention-grid.csv"];
  EXPECT_NE(csv.find("8,16,8,False,3.0000,0.0000,,,2.0000,6.0,success"), std::string::npos) << csv;
  EXPECT_NE(csv.find("8,16,8,True,1.0000,0.0000,3.0000,0.0000,4.0000,5.0,success"),
            std::string::npos)
      << csv;
  const std::string& page = files["suite.md"];
  EXPECT_NE(page.find(bytes_text(6 << 20) + " to " + bytes_text(5 << 20)), std::string::npos)
      << page;
  EXPECT_NE(page.find("Speedups are of medians"), std::string::npos) << page;
}

}  // namespace
}  // namespace wide::suite_rows_test
