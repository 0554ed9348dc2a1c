#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/network.h"

namespace wide {

struct Interval {
  double value = 0, low = 0, high = 0;
};

/// Samples of one contender; a sample is the mean time of one call over `calls_per_sample` calls.
struct Timing {
  std::string name;
  std::string kind;  // "baseline" or "candidate"
  double median_ns = 0, q1_ns = 0, q3_ns = 0;
  std::vector<double> samples_ns;  // in order of time, nothing dropped
  int outliers = 0;                // beyond 1.5 interquartile ranges, counted only
  int64_t calls_per_sample = 0;
  double first_call_ns = 0;
  double cold_ns = 0;           // on a device: one call alone, from its start until all is computed
  int64_t peak_bytes = 0;       // counted during the first call
  double with_packing_ns = 0;   // median of a call that also stacks inputs and splits outputs
  double flops = 0, bytes = 0;  // of one call for all N; 0: not known
  int64_t steps = 0;            // operator calls of one call; 0: not known
  /// Shares of the measured peaks; 0: not measured. `flops` follow the definition, so that an
  /// algorithm that needs fewer (Winograd's convolution) may exceed 1.
  double flops_share = 0, bytes_share = 0;
  /// FLOPs that a candidate's kernels execute, if they differ from the definition, and their share
  /// of the peak; else 0.
  double computed_flops = 0, computed_share = 0;
  std::string bound;  // why no faster: compute, memory, launch or unknown; empty: not judged
};

/// Something to be timed. On the CPU a call does all work before it returns. On a device it need
/// not wait: a sample is the time between two events of the device.
struct Contender {
  std::string name;
  std::string kind;  // "baseline" or "candidate"
  std::function<void()> call;
  c10::Device device = c10::kCPU;
  /// The same call for a user with separate tensors: stacks inputs, runs, splits outputs.
  std::function<void()> call_with_packing = {};
  /// Whether it has run before: then its first call here counts as part of the warm-up.
  bool has_run = false;
};

struct MeasureOptions {
  double budget_s = 1.5;  // per contender
  int min_samples = 10;
  double min_sample_ns = 1e6;
  double ratio_halfwidth = 0.01;  // stop when every ratio's 95 % interval is this narrow
  uint64_t seed = 0;
  std::function<double()> now_ns;  // the clock; empty: the machine's steady clock
};

/// Times all contenders interleaved in random order, warm. Index i belongs to contender i.
/// Every contender has its own budget: one that has spent it takes no part in later rounds, but
/// gets `min_samples` first. Calls with packing are timed at the end, `min_samples` of them or
/// fewer where those would take more than a quarter of a budget. An exception of a call is passed
/// on, and all samples are lost.
std::vector<Timing> measure(const std::vector<Contender>& contenders,
                            const MeasureOptions& options = {});

/// Fills median, quartiles and outliers from the samples.
void summarise(Timing& timing);
/// median(baseline) / median(candidate) with a bootstrap 95 % interval; samples are resampled in
/// pairs, since they were taken in the same round (`ratio_of_medians` in
/// engine/measure/statistics.h).
Interval speedup(const Timing& baseline, const Timing& candidate, uint64_t seed = 0);
/// SAME: the interval lies within ±3 %. FASTER, SLOWER: it does not, and neither does it contain 1
/// when widened to 99.5 %, so that among two equal contenders at most one pair in 100 is called
/// different. UNCLEAR otherwise.
std::string verdict(const Interval& speedup);

}  // namespace wide
