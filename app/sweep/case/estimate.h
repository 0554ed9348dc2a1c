#pragma once
#include "app/sweep/cases.h"

namespace wide {

/// Records Program(1) of a network in `dtype` without computing anything: takes milliseconds and no
/// memory, whatever its size. Throws Unsupported for operators whose result shapes depend on data.
Program record_dry(const Network& network, at::ScalarType dtype, bool grad, c10::Device device);

/// Estimated bytes of the parts of a case.
struct CaseBytes {
  int64_t loop = 0;      // the N models in a loop, with what a call saves for its backward pass
  int64_t compiled = 0;  // all N by the wide program, weights packed
  int64_t check = 0;     // held throughout: data, expected results
  int64_t exact = 0;     // one model, or one sample of it, in float64

  /// Bytes needed to measure the loop, and the wide program.
  int64_t with_loop() const { return check + std::max(exact, loop + compiled); }
  int64_t without_loop() const { return check + std::max(exact, compiled); }
};

/// `single`: Program(1) of `network`; `reference`: the program that the float64 reference runs at a
/// time, `single` itself or the same of fewer samples. Both are dry recordings.
CaseBytes estimate_case(const Network& network, const Program& single, const Program& reference,
                        const SweepCase& planned);

/// Expected results of a network whose samples are independent, computed sample by sample with the
/// program of one sample. Returns `[N, samples, ...]` for the positions in `samples`.
Expected expect_of_samples(const Network& network, const Program& one, const Ensemble& ensemble,
                           const std::vector<int64_t>& samples);

/// The same samples of results `[N, B, ...]`.
Tensors pick_samples(const Tensors& results, const std::vector<int64_t>& samples);

}  // namespace wide
