#pragma once
#include "engine/compile.h"

namespace wide {

/// Verdict of the check; definitions in contract terms: `max_rel` is the worst over outputs and
/// models of max|wide − ref| / max|ref| against a float64 run of the N separate models.
struct Correctness {
  double max_rel = 0;
  double eager_max_rel = 0;  // the N separate models' own error in the case's dtype
  double tolerance = 0;
  bool isolated = false;  // bitwise, or to tolerance where `note` says so
  bool ordered = false;
  bool pass = false;
  std::string note;     // "isolation to tolerance: ...", "masks independent"
  std::string failure;  // why not pass: "output 0 of model 3: relative error 0.12, ..."
};

/// The largest error that passes: max(tolerance, 4 x the separate models' own error). Models that
/// overflow in their own dtype excuse nothing.
double allowed(const Correctness& correctness);

/// Something wide that is to be believed: gets an ensemble (weights and inputs), returns outputs
/// then updates, all `[N, ...]`, which hold until the next call.
using WideFunction = std::function<Tensors(const Ensemble&)>;

/// The candidate behind a CompiledModel: sets the weights when they differ from the last, then
/// runs.
WideFunction as_function(CompiledModel& model, const Network& network);

/// The N separate models in float64: outputs then updates, `[N, ...]` each.
Tensors in_double(const Program& single, const Ensemble& ensemble);
/// The N separate models in their own dtype, through Program(1).
Tensors separate(const Program& single, const Ensemble& ensemble);

namespace detail {
struct SeparateDraws;
}

/// What the separate models give, for checking many candidates of one case against it. Of a network
/// that draws random numbers: what they draw with many seeds; null when nothing depends on them.
struct Expected {
  Tensors exact, separate;
  double eager_max_rel = 0;  // of `separate`
  Ensemble permuted;         // in another order, for all candidates
  std::shared_ptr<const detail::SeparateDraws> draws = {};
};
Expected expect(const Network& network, const Program& single, const Ensemble& ensemble);

/// Checks value, isolation, order. Networks that draw random numbers are checked by statistics:
/// share of zeros, independence of masks between models, reproducibility from the seed.
/// `masks_shared`: the candidate says that all models draw the same; then they must.
/// `expected`: what the separate models give, where it is known already. While it runs the models
/// of `ensemble` are overwritten in turn; afterwards they are as before, bit for bit.
/// Last it runs the first models again, since a candidate may have kept something of the others;
/// `run_again` false leaves that to a caller who does so anyway after the check.
Correctness check(const Network& network, const Program& single, const Ensemble& ensemble,
                  const WideFunction& candidate, double tolerance, bool masks_shared = false,
                  const Expected* expected = nullptr, bool run_again = true);

/// Value only (the quick check after timing).
double max_relative_error(const Tensors& got, const Tensors& expected);

}  // namespace wide
