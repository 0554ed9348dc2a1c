#pragma once
#include "app/cli.h"
#include "app/train/metrics/metric.h"
#include "app/train/run/state.h"

namespace wide {

/// `--require 'min:accuracy>=0.95'`: a condition on the result.
struct Requirement {
  std::string text;    // as typed
  std::string over;    // mean, min, best, ensemble
  std::string metric;  // or "diverged": the number of models that diverged
  std::string relation;
  double bound = 0;
  bool more_is_better = true;  // of the metric

  bool holds(double value) const;
};

/// Throws Error for a malformed condition, and for a metric that the run does not compute.
std::vector<Requirement> parse_requirements(const std::vector<std::string>& texts,
                                            const std::vector<WantedMetric>& metrics,
                                            bool validated);

/// A complaint (exit code 3) for each requirement that does not hold.
std::vector<Complaint> unmet(const std::vector<Requirement>& requirements, const TrainState& state,
                             const std::map<std::string, double>& ensemble);

}  // namespace wide
