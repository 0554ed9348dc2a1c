#pragma once
#include "engine/compile.h"

namespace wide {

/// Verdict of the check; definitions in contract terms: `max_rel` is the worst over outputs and
/// models of max|wide − ref| / max|ref| against a float64 run of the N separate models.
struct Correctness {
  double max_rel = 0;
  double eager_max_rel = 0;  // the N separate models' own error in the case's dtype
  double tolerance = 0;
  bool isolated = false;  // bitwise, or to tolerance if `note` says so
  bool ordered = false;
  bool pass = false;
  std::string note;     // "isolation to tolerance: ...", "masks independent"
  std::string failure;  // why it failed: "output 0 of model 3: relative error 0.12, ..."
};

/// The largest error that passes: max(tolerance, 4 x the separate models' own error). Models that
/// overflow in their own dtype do not count.
double allowed(const Correctness& correctness);

/// A wide computation to check: from an ensemble (weights and inputs) to outputs, then updates, all
/// `[N, ...]`, valid until the next call.
using WideFunction = std::function<Tensors(const Ensemble&)>;

/// A CompiledModel as a candidate: sets weights that differ from the last ones, then runs.
WideFunction as_function(CompiledModel& model, const Network& network);

/// The N separate models in float64: outputs then updates, `[N, ...]` each.
Tensors in_double(const Program& single, const Ensemble& ensemble);
/// The N separate models in their own dtype, through Program(1).
Tensors separate(const Program& single, const Ensemble& ensemble);

namespace detail {
struct SeparateDraws;
}

/// Results of the separate models, for checking many candidates of one case. For a random network
/// also its results with many seeds; null if results do not depend on random numbers.
struct Expected {
  Tensors exact, separate;
  double eager_max_rel = 0;  // of `separate`
  Ensemble permuted;         // in another order, for the check of order
  std::shared_ptr<const detail::SeparateDraws> draws = {};
};
Expected expect(const Network& network, const Program& single, const Ensemble& ensemble);

/// Checks value, isolation, order. Networks that draw random numbers are checked by statistics:
/// share of zeros, independence of masks between models, reproducibility from the seed.
/// `masks_shared`: the candidate claims that all models draw the same, which is checked.
/// `expected`: results of the separate models, if known. The models of `ensemble` are overwritten
/// in turn and restored bit for bit. At the end it runs the first models again, since a candidate
/// may have kept values of others; not for random networks, nor with `run_again` false: then the
/// caller does that.
Correctness check(const Network& network, const Program& single, const Ensemble& ensemble,
                  const WideFunction& candidate, double tolerance, bool masks_shared = false,
                  const Expected* expected = nullptr, bool run_again = true);

/// The largest relative error, as `Correctness::max_rel`; infinite if results are not comparable.
double max_relative_error(const Tensors& got, const Tensors& expected);

}  // namespace wide
