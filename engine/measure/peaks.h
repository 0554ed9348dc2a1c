#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/program.h"

namespace wide {

/// The most that a machine reaches with so many threads, as measured. Times are reported as a share
/// of it (`roofline.h`), and strategies that were not timed are estimated from it (`lower/tune`).
struct Peaks {
  /// Bytes per second of a triad (two arrays read, one written) over `working_set` bytes.
  struct Bandwidth {
    double working_set = 0, bytes_per_s = 0;
  };
  int threads = 0;
  std::map<at::ScalarType, double> flops_per_s;  // of the best GEMM
  std::vector<Bandwidth> bandwidth;              // from the inner caches to the memory
  double step_ns = 0;                            // of one operator call on one element

  /// The bandwidth of main memory, for data that no cache holds; 0 when not measured.
  double memory_bytes_per_s() const;
  /// The bandwidth for a call that touches `bytes`: that of the smallest measured working set that
  /// holds so many, else of main memory.
  double bytes_per_s(double bytes) const;
};

/// Measures them, in about a second: the best of several GEMMs for each dtype, triads in the inner
/// caches, the outer cache and beyond it, and an operator on one element.
Peaks measure_peaks(c10::Device device, int threads);

/// A kernel of this project that may reach more float32 operations per second than ATen's GEMM.
/// `measure_peaks` times it too. It is registered where kernels are (`primitives/kernels`), since
/// the engine knows none of them.
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

/// Peaks of a usual machine, without measuring: for estimates that only compare strategies.
Peaks typical_peaks(int threads);

}  // namespace wide
