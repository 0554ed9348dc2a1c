#pragma once
#include "engine/program.h"

namespace wide::detail {

/// Compares what a candidate draws with what the separate models draw, one result of each
/// `[seeds, N, elements]` in float64, by statistics whose bounds are wide enough that a right
/// candidate practically never fails (about 1e-6 each). Empty, or what follows the result's name:
/// " of model 3: share of zeros 0.75, expected 0.5". `every_element`: also element by element, and
/// the spread over seeds. `errors`: standard errors that means may differ by; 6 suit 24 seeds.
std::string compare_distributions(const Tensor& candidate, const Tensor& separate, double tolerance,
                                  bool every_element, double errors = 6);

/// The worst relative error among elements that no seed changes.
double error_of_constants(const Tensor& candidate, const Tensor& separate);

}  // namespace wide::detail
