#include "engine/lower/plan/ranges.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/compile.h"

namespace wide::ranges_test {
namespace {

/// Which numbers of ranges are tried for 11 models on two threads, by calls that take as long as
/// `call_ms` says of them.
std::vector<int> tried(const RangeOptions& options, const std::function<int(int)>& call_ms,
                       int* chosen = nullptr, bool draws = false) {
  Network network;
  network.name = "double";
  network.tensors = {{"x", Role::input, {3}}};
  network.forward = [draws](const Tensors& t) {
    return Tensors{draws ? at::dropout(t[0], 0.5, true) : t[0] * 2};
  };
  const Ensemble ensemble = generate(network, 11, at::kFloat, at::kCPU, 3);
  const Program single = record_single(network, ensemble);
  const MakeProgram program = [&](int64_t begin, int64_t n) {
    const Ensemble some = ensemble.models(begin, n);
    return std::make_shared<const RangeProgram>(
        RangeProgram{widen(single, n, {{some.tensors[0], true}}), {}});
  };
  std::vector<int> numbers;
  const MakeExecutor lower = [&](int ranges) {
    numbers.push_back(ranges);
    ExecutorOptions o;
    o.threads = 2;
    o.ranges = ranges;
    return std::make_unique<Executor>(single, ensemble, program, o);
  };
  const CallOf call_of = [&](Executor& executor) {
    return [ms = call_ms(executor.ranges())] {
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    };
  };
  RangeOptions two = options;
  two.threads = 2;
  const auto executor = choose_ranges(single, 11, two, lower, call_of);
  if (chosen) *chosen = executor->ranges();
  return numbers;
}

/// Threads would take from one generator in any order.
TEST(ChooseRanges, DoesNotSplitWhatDrawsRandomNumbers) {
  RangeOptions asked;
  asked.asked = 3;
  for (const RangeOptions& options : {RangeOptions(), asked})
    EXPECT_EQ(tried(
                  options, [](int) { return 1; }, nullptr, /*draws=*/true),
              std::vector<int>{1});
}

TEST(ChooseRanges, TriesLongerRangesWhileTheyMayWin) {
  using Numbers = std::vector<int>;
  const auto alike = [](int) { return 2; };
  int chosen = 0;
  EXPECT_EQ(tried(
                {}, [](int ranges) { return ranges == 4 ? 1 : 3; }, &chosen),
            (Numbers{11, 8, 4, 2, 1}));
  EXPECT_EQ(chosen, 4);
  EXPECT_EQ(tried({}, [](int ranges) { return 15 - ranges; }), (Numbers{11, 8, 4, 1}));
  RangeOptions o;
  o.asked = 3;
  EXPECT_EQ(tried(o, alike), Numbers{3});
  o = {};
  o.measure = false;
  EXPECT_EQ(tried(o, alike), Numbers{2});
}

TEST(ChooseRanges, TimesInTurnsWhatSeemsFaster) {
  RangeOptions o;
  o.in_turns = true;
  int made = 0, chosen = 0;
  tried(
      o, [&](int ranges) { return ranges == 11 && made++ < 5 ? 10
                                  : ranges == 11             ? 2
                                                             : 4; },
      &chosen);
  EXPECT_EQ(chosen, 11) << "disturbed while timed alone";
}

TEST(ChooseRanges, TheFewestThatFitWhereNothingIsTimed) {
  using Numbers = std::vector<int>;
  const auto not_called = [](int) { return 100000; };
  const auto of = [](int most) {
    RangeOptions o;
    o.measure = false;
    o.share_of_memory = [most](const Executor& executor) {
      return executor.models_at_a_time() <= most ? 1 : 3;
    };
    return o;
  };
  int chosen = 0;
  EXPECT_EQ(tried(of(6), not_called, &chosen), (Numbers{11, 2}));
  EXPECT_EQ(chosen, 2);
  EXPECT_EQ(tried(of(3), not_called, &chosen), (Numbers{11, 2, 4}));
  EXPECT_EQ(chosen, 4);
  EXPECT_EQ(tried(of(0), not_called, &chosen), (Numbers{11, 2, 4, 8}));
  EXPECT_EQ(chosen, 11) << "the shortest ranges, if none fit";
}

TEST(ChooseRanges, MoreMemoryHasToSaveMoreTime) {
  RangeOptions o;
  o.all_at_once = false;
  o.share_of_memory = [](const Executor& executor) {
    return executor.models_at_a_time() <= 2 ? 0.9 : executor.models_at_a_time() <= 3 ? 1.5 : 2.1;
  };
  int chosen = 0;
  const auto four_take = [&](int milliseconds) {
    tried(
        o, [=](int ranges) { return ranges == 4 ? milliseconds : 8; }, &chosen);
    return chosen;
  };
  EXPECT_EQ(four_take(3), 4) << "half as much memory again saves more than half of the time";
  EXPECT_NE(four_take(7), 4) << "half as much memory again saves an eighth of the time";
  o.share_of_memory = [](const Executor& executor) {
    return executor.models_at_a_time() <= 2 ? 1 : 2.1;
  };
  EXPECT_NE(four_take(1), 4) << "more than twice the memory";
}

TEST(ChooseRanges, EndsWithTheTimeAndTheMemoryThatThereIs) {
  using Numbers = std::vector<int>;
  const auto alike = [](int) { return 2; };
  RangeOptions o;
  o.all_at_once = false;
  EXPECT_EQ(tried(o, alike), (Numbers{11, 8, 4, 2}));
  o.share_of_memory = [](const Executor& executor) {
    return executor.models_at_a_time() <= 2 ? 1 : 3;
  };
  int chosen = 0;
  EXPECT_EQ(tried(
                o, [](int ranges) { return ranges == 11 ? 11 : ranges / 2 + 1; }, &chosen),
            (Numbers{11, 8, 4}));
  EXPECT_EQ(chosen, 8);
  o.all_at_once = true;
  EXPECT_EQ(tried(
                o, [](int ranges) { return ranges == 11 ? 11 : ranges / 2 + 1; }, &chosen),
            (Numbers{11, 8, 4, 1}));
  EXPECT_EQ(chosen, 8) << "nor do all models at once";
  o.all_at_once = false;
  o.share_of_memory = {};
  o.longest_s = 1e-6;
  EXPECT_EQ(tried(o, alike), Numbers{11});
}

}  // namespace
}  // namespace wide::ranges_test
