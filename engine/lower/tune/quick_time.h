#pragma once
#include <algorithm>
#include <vector>

// Quick timing, to choose among ways of computing the same: a few milliseconds each. `once` makes
// one call and returns its nanoseconds.
namespace wide {

constexpr double kShortCall_ns = 1e6;
/// For calls this long one or two samples suffice: disturbances average out within a call.
constexpr double kSteadyCall_ns = 2e7;
/// A call this long is made once: warming up is a small part of it.
constexpr double kOneCall_ns = 1e9;

/// The shortest of two calls, or of one that takes a second. While the shortest is above `far_ns`,
/// up to eight short calls are made, since the first ones may have had to wake threads up. `far_ns`
/// 0: two calls.
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
