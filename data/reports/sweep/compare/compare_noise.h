#pragma once
#include <string>
#include <vector>

#include "data/reports/sweep/report.h"

namespace wide {

// How far the times of two sweeps differ by chance: `compare` widens its intervals by that.

/// By how much one trial became faster between two sweeps, beyond what its baselines changed.
struct Change {
  std::string group;   // trials that should have changed alike
  double log = 0;      // log(speed after / speed before): negative is slower
  double within = 0;   // standard error of `log` from the samples
  double machine = 0;  // standard deviation among the baselines' own changes
  bool known = false;  // false: no baseline in common, or too few samples
};

/// Changes of candidates timed in both; index i belongs to `names[i]`. `apart` receives how far
/// the baselines changed against each other, which they should not; where they did, the machine's
/// speed changed for some of them, and it is unknown for which.
std::vector<Change> changes_of(const Case& before, const Case& after,
                               const std::vector<std::string>& names, uint64_t seed,
                               std::vector<double>* apart);

/// How much ratios scatter between two sweeps of the same program: estimated from changes that
/// differ inside a group, and from baselines that changed against each other.
struct Noise {
  double scale = 0;    // a standard deviation of logs
  double freedom = 0;  // degrees of freedom, for `student_quantile`
};
Noise noise_of(const std::vector<Change>& changes, const std::vector<double>& apart);

/// The t for which a Student distribution lies outside ±t with this probability.
double student_quantile(double probability, double freedom);

}  // namespace wide
