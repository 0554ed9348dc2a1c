#pragma once
#include "engine/program.h"

namespace wide::detail {

/// Compares draws of a candidate and of the separate models, one result of each, `[seeds, N,
/// elements]` in float64, by statistics with bounds so wide that a correct candidate practically
/// never fails (about 1e-6 each). Returns "", or text after the result's name:
/// " of model 3: share of zeros 0.75, expected 0.5". `every_element`: also compares each element,
/// and the spread over seeds. `errors`: allowed standard errors between means; 6 suits 24 seeds.
std::string compare_distributions(const Tensor& candidate, const Tensor& separate, double tolerance,
                                  bool every_element, double errors = 6);

/// The largest relative error among elements that do not depend on the seed.
double error_of_constants(const Tensor& candidate, const Tensor& separate);

}  // namespace wide::detail
