#include "engine/measure/timeline.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace wide {

size_t median_at(const std::vector<double>& ns) {
  std::vector<size_t> order(ns.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>((ns.size() - 1) / 2);
  std::nth_element(order.begin(), middle, order.end(),
                   [&](size_t a, size_t b) { return ns[a] < ns[b]; });
  return *middle;
}

void sort_spans(std::vector<TimelineSpan>& spans) {
  std::ranges::stable_sort(spans, [](const TimelineSpan& a, const TimelineSpan& b) {
    return std::tuple(a.begin_ns, -a.end_ns) < std::tuple(b.begin_ns, -b.end_ns);
  });
}

}  // namespace wide
