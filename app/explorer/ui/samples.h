#pragma once
#include <vector>

#include "app/explorer/ui/ui.h"
#include "data/reports/sweep/report.h"

namespace wide {

/// Counts of samples in equal steps from `low_ns` to `high_ns`.
struct Histogram {
  double low_ns = 0, high_ns = 0;
  std::vector<int> counts;
};
Histogram histogram_of(const std::vector<double>& samples_ns, int bins);

/// Draws the samples in the order in which they were measured, over their median and quartiles, and
/// a histogram beside them; large sets are thinned. `width` and `height` in pixels. At least one
/// sample.
void draw_samples(Ui& ui, const Timing& timing, float width, float height);

}  // namespace wide
