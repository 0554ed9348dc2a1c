#pragma once
#include <map>
#include <vector>

#include "engine/measure.h"
#include "engine/program.h"

namespace wide {

/// What a machine reaches at most with so many threads, measured.
struct Peaks {
  /// Bytes per second of a triad (two arrays read, one written) over `working_set` bytes.
  struct Bandwidth {
    double working_set = 0, bytes_per_s = 0;
  };
  int threads = 0;
  std::map<at::ScalarType, double> flops_per_s;  // of the best GEMM
  std::vector<Bandwidth> bandwidth;              // from the inner caches to the memory
  double step_ns = 0;                            // of one operator call that computes nothing much

  /// Of memory that no cache holds; 0 when not measured.
  double memory_bytes_per_s() const;
  /// Of the smallest measured working set that holds `bytes`, else of the memory.
  double bytes_per_s(double bytes) const;
};

/// Measures them, in about a second: the best of several GEMMs for each dtype, triads in the inner
/// caches, the outer cache and beyond it, and an operator on one element.
Peaks measure_peaks(c10::Device device, int threads);

/// What one call for all N models has to do at least.
struct WorkLoad {
  double flops = 0;  // multiplications and additions
  double bytes = 0;  // inputs and weights read once, results written once
};

/// Counted from Program(1): 2MNK of matrix products and convolutions (and of their gradients),
/// one for every element of any other result. `shared`, by `program.bound`: read once for all.
WorkLoad count_work(const Program& single, int64_t n, const std::vector<bool>& shared);

/// What a core of a usual machine reaches, for estimates that need no more than the proportions.
Peaks typical_peaks(int threads);

/// The least time of `program`'s main nodes one after the other: each the longer of its FLOPs and
/// its bytes at the peaks (in float32), and a step.
double estimate_ns(const Program& program, const Peaks& peaks);

/// Fills flops, bytes, their shares of the peaks and `bound`. The least time that the FLOPs
/// (`compute`), the bytes (`memory`) and the timing's steps (`launch`) would take at the peaks is
/// held against the median: the largest of the three is the word when it makes up at least 40 % of
/// the median, else `unknown`. `parallel_steps`: how many steps run side by side.
void judge(Timing& timing, const WorkLoad& load, const Peaks& peaks, at::ScalarType dtype,
           double parallel_steps = 1);

}  // namespace wide
