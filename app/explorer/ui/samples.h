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

/// A strip of the samples in order of time over their quartiles and median, and beside it how often
/// each time came; `width` and `height` in pixels. At least one sample.
void draw_samples(Ui& ui, const Timing& timing, float width, float height);

}  // namespace wide
