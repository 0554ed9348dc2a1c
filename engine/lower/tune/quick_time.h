#pragma once
#include <algorithm>
#include <vector>

// Times for choosing among ways to do the same, in a few milliseconds each. `once` makes one call
// and returns its nanoseconds.
namespace wide {

constexpr double kShortCall_ns = 1e6;
/// On calls this long what disturbs them averages out, and every further look costs.
constexpr double kSteadyCall_ns = 2e7;
/// A call this long is made once: what comes first adds little to it.
constexpr double kOneCall_ns = 1e9;

/// The shortest of two calls (one of a second will do); of up to eight short ones while that is
/// beyond `far_ns`, since threads that had to wake up first are no reason to give something up.
/// `far_ns` 0: two will do.
template <class Once>
double first_look_ns(Once once, double far_ns) {
  constexpr int kMore = 6;
  double ns = once();
  if (ns > kOneCall_ns) return ns;
  ns = std::min(ns, once());
  for (int i = 0; i < kMore && far_ns > 0 && ns > far_ns && ns < kShortCall_ns; ++i)
    ns = std::min(ns, once());
  return ns;
}

template <class Once>
double median_ns(Once once, int calls) {
  std::vector<double> samples;
  for (int i = 0; i < calls; ++i) samples.push_back(once());
  const auto middle = samples.begin() + calls / 2;
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace wide
