#pragma once
#include <cstdint>
#include <vector>

#include "engine/measure/measure.h"

namespace wide {

/// The q-quantile by linear interpolation between order statistics; 0 for no values.
double quantile(std::vector<double> values, double q);
double median(std::vector<double> values);

/// Percentile bootstrap of median(a) / median(b), both resampled at the same indices; samples that
/// only one side has are ignored. `value` is the ratio of the samples' medians, `level` the wanted
/// coverage. Rounds are resampled as if independent; then the interval is widened for the
/// correlation of neighbouring rounds, since disturbances of a machine last for several rounds.
Interval ratio_of_medians(const std::vector<double>& a, const std::vector<double>& b, int resamples,
                          uint64_t seed, double level = 0.95);

/// Mean and standard error of the mean.
struct Mean {
  double value = 0, error = 0;
};
Mean mean_of(const std::vector<double>& values);

/// |a − b| in standard errors of the difference (Welch); 0 when both are the same constant.
double distance_in_errors(const Mean& a, const Mean& b);

}  // namespace wide
