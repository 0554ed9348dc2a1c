#pragma once
#include <optional>

#include "app/sweep/plan.h"

namespace wide {

/// Program(1) of a network whose tensors are of `dtype`, recorded without computing anything: no
/// memory, milliseconds, whatever its size. Throws Unsupported for operators whose shapes nobody
/// knows beforehand.
Program record_dry(const Network& network, at::ScalarType dtype, bool grad);

/// Bytes that the parts of a case take by estimate.
struct CaseBytes {
  int64_t loop = 0;      // the N models in a loop, what a call keeps for its backward pass included
  int64_t compiled = 0;  // all N by the wide program, weights packed
  int64_t check = 0;     // what is held all along: data, expected results
  int64_t exact = 0;     // one model, or one sample of it, in float64

  /// What has to be there for the one and for the other to be measured.
  int64_t with_loop() const { return check + std::max(exact, loop + compiled); }
  int64_t without_loop() const { return check + std::max(exact, compiled); }
};

/// `single`: of `network`; `reference`: what is computed in float64 at a time, as `single` or of
/// fewer samples. Both recorded dry.
CaseBytes estimate_case(const Network& network, const Program& single, const Program& reference,
                        const PlannedCase& planned);

/// What is expected of a network whose samples have nothing to do with each other, from the program
/// of one of them: of sample `k` of each model for every `k` in `samples`, as `[N, samples, ...]`.
Expected expect_of_samples(const Network& network, const Program& one, const Ensemble& ensemble,
                           const std::vector<int64_t>& samples);

/// Those samples of results `[N, B, ...]`.
Tensors pick_samples(const Tensors& results, const std::vector<int64_t>& samples);

}  // namespace wide
