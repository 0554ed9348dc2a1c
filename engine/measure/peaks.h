#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

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

/// A kernel that may reach more of the CPU's float32 peak than the library's GEMM does: whoever has
/// one says so beside it.
struct PeakProbe {
  std::string name;
  struct Work {
    std::function<void()> call;  // on the threads that are set
    double flops = 0;            // of one call
  };
  std::function<Work(int threads)> make;
};
/// Registers at static initialisation.
bool add_peak_probe(PeakProbe probe);

/// What a core of a usual machine reaches, for estimates that need no more than the proportions.
Peaks typical_peaks(int threads);

}  // namespace wide
