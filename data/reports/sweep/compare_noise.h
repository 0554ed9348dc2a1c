#pragma once
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"

namespace wide {

/// The change of one trial against the baselines of its case.
struct Change {
  std::string group;   // trials that should have changed alike
  double log = 0;      // of the speed's ratio: negative is slower
  double within = 0;   // its standard error from the samples
  double machine = 0;  // that of what it is compared with: how far the baselines disagree
  bool known = false;  // no: no baseline or too few samples in common
};

/// Changes of candidates timed in both; index i belongs to `names[i]`. `apart` receives how far
/// the baselines changed against each other, which they should not; where they did, the machine's
/// speed changed for some of them, and it is unknown for which.
std::vector<Change> changes_of(const Case& before, const Case& after,
                               const std::vector<std::string>& names, uint64_t seed,
                               std::vector<double>* apart);

/// How much ratios scatter between the runs: from what groups show inside themselves and from the
/// baselines.
struct Noise {
  double scale = 0;
  double freedom = 0;  // degrees, for the quantile
};
Noise noise_of(const std::vector<Change>& changes, const std::vector<double>& apart);

/// The t of which a Student distribution exceeds +-t with this probability.
double student_quantile(double probability, double freedom);

}  // namespace wide
